// PlainTree: a document of plain values (none, bool, integer, real, text, bytes, list, tuple, dict), read
// from a pickle or from JSON. Values are small and refer to the tree, which owns lists, dicts and copied
// text. A list may hold the same value twice, and a hostile file may even put a list into itself: readers
// must follow a known layout and never walk a tree blindly.
#pragma once

#include "common/base/result.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

enum class PlainKind : uint8_t { none, boolean, integer, real, text, bytes, list, tuple, dict };

struct PlainValue {
  PlainKind kind = PlainKind::none;
  uint32_t node = 0;      // list, tuple, dict: index in the tree
  int64_t integer = 0;    // integer, boolean
  double real = 0;        // real
  std::string_view text;  // text, bytes: points into the source or into the tree
};

// Limits of one document. Larger files are refused.
struct PlainLimits {
  size_t values = size_t{8} << 20;      // stored values, 40 bytes each
  size_t containers = size_t{4} << 20;  // lists, tuples and dicts
  size_t depth = 100;                   // containers that are open at once
};

class PlainTree {
 public:
  PlainTree() = default;
  PlainTree(PlainTree&&) = default;
  PlainTree& operator=(PlainTree&&) = default;
  PlainTree(const PlainTree&) = delete;
  PlainTree& operator=(const PlainTree&) = delete;

  PlainValue root;

  // Items of a list or tuple; for a dict, keys and values alternate. Empty for any other kind.
  std::span<const PlainValue> items(const PlainValue& value) const;
  // The value of a text key; the last one if the key occurs twice. Null if the key is absent or `dict` is no
  // dict.
  const PlainValue* member(const PlainValue& dict, std::string_view key) const;

  PlainValue add_container(PlainKind kind);
  std::vector<PlainValue>& content(const PlainValue& container) { return nodes_[container.node]; }
  size_t containers() const { return nodes_.size(); }
  std::string_view keep(std::string text) { return texts_.emplace_back(std::move(text)); }

 private:
  std::vector<std::vector<PlainValue>> nodes_;
  std::deque<std::string> texts_;
};

// An integer, a boolean, or a text of digits (the JSON form writes some numbers as text).
std::optional<int64_t> integer_of(const PlainValue* value);
// Empty if the value is no text.
std::string_view text_of(const PlainValue* value);

// Parses JSON of any size within the limits.
base::Result<PlainTree> read_plain_json(std::string_view text, const PlainLimits& limits = {});

}  // namespace xpurun::report
