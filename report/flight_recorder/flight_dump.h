// FlightDump: one dump of PyTorch's Flight Recorder: the last collectives and point-to-point operations that
// one rank handed to its process groups. Formats 1.5 (torch 2.3) to 2.x, as pickle or as JSON; unknown keys
// are ignored.
#pragma once

#include "report/flight_recorder/plain_tree.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

enum class FlightState { scheduled, started, completed };

// Texts and values belong to the dump's tree.
struct FlightEntry {
  int64_t record_id = 0;     // counts up from 0; the oldest entry has another number once the buffer is full
  int64_t pg_id = -1;        // number of the process group in this process; -1: not written
  std::string_view group;    // its name, equal on all of its ranks
  std::string_view backend;  // "nccl"
  std::string_view op;       // "all_reduce", "send 0->1": the profiling name without the backend
  int64_t sequence = 0;      // of the group's collectives, from 1; a point-to-point entry has the last one's
  int64_t p2p_sequence = 0;
  int64_t created_ns = 0;  // UTC
  int64_t timeout_ms = 0;
  FlightState state = FlightState::scheduled;
  bool p2p = false;
  bool retired = false;    // the watchdog has let go of the entry: done or timed out
  PlainValue input_sizes;  // a list of shapes
  PlainValue output_sizes;
  PlainValue input_dtypes;
  PlainValue frames;  // innermost first
};

struct FlightGroup {
  std::string_view name;
  std::string_view description;  // "default_pg", "tp"; "undefined": none
  std::vector<int32_t> ranks;    // global ranks by rank in the group; empty: not written
};

// What the watchdog had seen of one group. Negative: none.
struct FlightStatus {
  int64_t pg_id = -1;
  int64_t last_enqueued = -1;
  int64_t last_completed = -1;
};

struct FlightDump {
  std::unique_ptr<std::string> source;  // a text that stays where it is when the dump moves
  PlainTree tree;
  int major = 0;  // of the format
  int minor = 0;
  int64_t newest_ns =
      0;  // the dump was taken then or later (UTC): newest time that an entry names or implies
  bool starts_seen = false;  // starts of kernels were recorded (TORCH_NCCL_ENABLE_TIMING)
  std::vector<FlightGroup> groups;
  std::vector<FlightStatus> status;
  std::vector<FlightEntry> entries;  // oldest first

  const FlightGroup* group(std::string_view name) const;
  const FlightStatus* status_of(int64_t pg_id) const;
};

// The content of one file, pickle or JSON. An error says what is wrong and, for a pickle, at which byte.
base::Result<FlightDump> read_flight_dump(std::string content);

// Whether `head`, the first bytes of a file, can be the beginning of a dump.
bool looks_like_flight_dump(std::string_view head);

}  // namespace xpurun::report
