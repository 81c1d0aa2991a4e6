// The frame that event files and span files share: two header lines, then blocks of records with a checksum.
// docs/events.md is the specification. Readers trust nothing.
#pragma once

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/model/timing/event_records.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace xpurun::model {

// The second line of the file, as JSON.
struct EventFileHeader {
  base::Rank rank = base::kNoRank;
  int local_rank = -1;
  base::Pid pid = 0;
  std::string host;
  std::string gpu;
  std::string gpu_uuid;
  base::MonoNs mono_ns = 0;  // the same moment by both clocks, ns
  int64_t wall_ns = 0;
};

namespace records {

inline constexpr size_t kLargestFile = size_t{1} << 30;

std::string header_lines(std::string_view schema, const EventFileHeader& header);
// Takes the two lines from the front of the file. The error says which line is wrong.
base::Result<EventFileHeader> take_header(std::string_view& file, std::string_view schema);

// Appends a record to the payload of a block.
void put_record(std::string& payload, uint8_t tag, std::string_view body);
// Size, checksum and payload; empty for an empty payload.
std::string block_of(std::string_view payload);
// Takes block after block and calls `record` for each record, until `record` returns false for a damaged one.
// Returns whether nothing was missing or damaged.
bool each_record(std::string_view blocks, const std::function<bool(uint8_t tag, Fields body)>& record);

}  // namespace records

}  // namespace xpurun::model
