// The packets of a Perfetto trace as structs: what xpurun writes, and the plain forms of other programs.
#pragma once

#include "report/events/activity.h"
#include "report/events/foreign/checked_pbf.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace xpurun::report {

struct PerfettoPacket {
  uint64_t at_ns = 0;
  uint32_t clock = 0;  // 0: that of the sequence
  uint32_t sequence = 0;
  uint32_t flags = 0;
  std::optional<CheckedPbf> event;
  std::optional<CheckedPbf> interned;
  std::optional<CheckedPbf> defaults;
  std::optional<CheckedPbf> clocks;
  std::optional<CheckedPbf> descriptor;
};
// Throws protozero's exceptions, as do the other functions that take bytes.
PerfettoPacket packet_of(std::string_view bytes);

// What the packets of one sequence share.
class PerfettoSequence {
 public:
  uint64_t track = 0;
  uint32_t clock = 0;

  void intern(CheckedPbf data);
  // Empty: the trace has no such text.
  const std::string& text(uint32_t kind, uint64_t number) const;
  void set_defaults(CheckedPbf r);

 private:
  std::map<std::pair<uint32_t, uint64_t>, std::string> texts_;
};

struct PerfettoEvent {
  int type = 0;
  uint64_t track = 0;
  std::string name;
  std::string category;
  std::vector<Argument> arguments;  // that other slices of the call may have too
  std::vector<Argument> own;        // of this slice alone
  std::vector<uint64_t> flows;
  uint64_t correlation = 0;
  double value = 0;
  // Of Slice.
  uint32_t sequence = 0;
  uint32_t delay_us = 0;
};
PerfettoEvent event_of(CheckedPbf r, const PerfettoSequence& sequence);

}  // namespace xpurun::report
