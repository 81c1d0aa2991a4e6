// FlightDump: one dump of PyTorch's Flight Recorder, that is, the latest collectives and point-to-point
// operations that one rank passed to its process groups. Formats 1.5 (torch 2.3) to 2.x, as pickle or as
// JSON; unknown keys are ignored.
#pragma once

#include "report/flight_recorder/plain_tree.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

enum class FlightState { scheduled, started, completed };

// The dump's tree owns the texts and values.
struct FlightEntry {
  int64_t record_id = 0;     // counts up from 0; the oldest entry starts above 0 once the buffer has wrapped
  int64_t pg_id = -1;        // number of the process group in this process; -1: not recorded
  std::string_view group;    // the process group's name, equal on all of its ranks
  std::string_view backend;  // "nccl"
  std::string_view op;       // "all_reduce", "send 0->1": the profiling name without the backend
  int64_t sequence = 0;      // of the group's collectives, from 1; a point-to-point entry has the latest
                             // collective's
  int64_t p2p_sequence = 0;
  int64_t created_ns = 0;  // UTC
  int64_t timeout_ms = 0;
  FlightState state = FlightState::scheduled;
  bool p2p = false;
  bool retired = false;    // the watchdog has released the entry: done or timed out
  PlainValue input_sizes;  // a list of shapes
  PlainValue output_sizes;
  PlainValue input_dtypes;
  PlainValue frames;  // innermost first
};

struct FlightGroup {
  std::string_view name;
  std::string_view description;  // "default_pg", "tp"; "undefined": none
  std::vector<int32_t> ranks;    // global ranks by rank in the group; empty: not recorded
};

// The watchdog's latest state of one group. Negative: none.
struct FlightStatus {
  int64_t pg_id = -1;
  int64_t last_enqueued = -1;
  int64_t last_completed = -1;
};

struct FlightDump {
  std::unique_ptr<std::string> source;  // owns the text, at an address that survives a move of the dump
  PlainTree tree;
  int major = 0;  // of the format version
  int minor = 0;
  int64_t newest_ns =
      0;  // lower bound of the dump's time (UTC, ns): the newest time that an entry contains or implies
  bool starts_seen = false;  // starts of kernels were recorded (TORCH_NCCL_ENABLE_TIMING)
  std::vector<FlightGroup> groups;
  std::vector<FlightStatus> status;
  std::vector<FlightEntry> entries;  // oldest first

  const FlightGroup* group(std::string_view name) const;
  const FlightStatus* status_of(int64_t pg_id) const;
};

// Parses one file, pickle or JSON. Errors name the cause and, for a pickle, the byte offset.
base::Result<FlightDump> read_flight_dump(std::string content);

// Whether `head`, the first bytes of a file, may begin a dump.
bool looks_like_flight_dump(std::string_view head);

}  // namespace xpurun::report
