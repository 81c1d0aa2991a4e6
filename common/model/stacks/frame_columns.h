// Frames as columns: one list of numbers per field, with one entry per frame. A list is a JSON string of
// numbers separated by spaces, because nlohmann reads such a string four times as fast as an array of
// numbers. Texts are stored once, in a table, and the columns hold their indices. 0 is the empty value of
// every column, and a column of zeros is omitted.
#pragma once

#include "common/model/stack_snapshot.h"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace xpurun::model {

// Limit for the bytes of a table's texts and of all threads' frames: a small file whose frames repeat one
// long text must not exhaust memory.
inline constexpr size_t kMostTableText = size_t{64} << 20;
inline constexpr size_t kMostThreadText = size_t{1} << 30;

// Bytes in a frame's texts.
size_t text_size(const Frame& frame);

// Appends `n` to a list of numbers.
void append_number(std::string& list, uint64_t n);
// Throws json::exception if `list` is not a list of numbers.
std::vector<uint64_t> numbers_of(const nlohmann::json& list);

// Writes the members "frames" and "strings" of `file`.
void write_frame_columns(nlohmann::ordered_json& file, std::span<const Frame> frames);
// Reads both members. Throws json::exception if they are inconsistent.
std::vector<Frame> read_frame_columns(const nlohmann::json& file);

}  // namespace xpurun::model
