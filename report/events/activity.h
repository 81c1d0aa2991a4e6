// Activity: what one rank did in intervals of time, the common form of all inputs of a time line. Readers
// fill it (event files, span files, files of other tools), writers turn it into traces. Plain data.
#pragma once

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/model/names.h"
#include "common/model/timing/span.h"
#include "common/model/timing/timed_event.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace xpurun::report {

enum class Category : uint8_t { matmul, collective, memory, kernel, graph, host, python, pipeline };

enum class TrackKind : uint8_t { python, host, compute, communication, memory };

}  // namespace xpurun::report

namespace xpurun::model {

template <>
inline constexpr std::array<std::string_view, 8> kNames<report::Category>{
    "matmul", "collective", "memory", "kernel", "graph", "host", "python", "pipeline"};
template <>
inline constexpr std::array<std::string_view, 5> kNames<report::TrackKind>{"python", "host", "compute",
                                                                           "communication", "memory"};

}  // namespace xpurun::model

namespace xpurun::report {

struct Argument {
  std::string name;
  std::variant<int64_t, double, std::string> value;
};

// A row of a rank. Slices of a track may overlap; lanes.h distributes them.
struct Track {
  TrackKind kind = TrackKind::compute;
  uint32_t number = 0;  // stream; thread id for Python and host
  std::string name;     // of a foreign file; else empty
};

// What the slices of equal calls have in common.
struct Call {
  std::string name;  // "matmul 4096x1024x512 bf16"
  Category category = Category::host;
  std::vector<Argument> arguments;
  uint64_t work = 0;           // FLOP of a matmul, bytes of the others; 0: unknown
  double bus_factor = 0;       // collective: bus bandwidth / algorithm bandwidth; 0: no bandwidth
  bool ends_together = false;  // no rank leaves before all have entered: ends show how clocks differ
  bool open = false;           // a collective that had not ended: its slices end with a dump
  bool message = false;   // a send or a receive: two slices meet, of which one may begin or end long before
  bool captured = false;  // a record of CUPTI: no delay is known
  bool begin_on_host = false;                // the begin is that of the call on the host
  std::string place;                         // of Python: "train.py:40 (collate)"; empty: unknown
  std::string group;                         // of Python: of a collective or message; empty: none
  std::string function;                      // vendor function; empty: none
  model::EventKey key{};                     // of work of the GPU, as far as the file says
  int communicator = -1;                     // index into Activity::communicators; negative: unknown
  model::Stage stage = model::Stage::other;  // of Python
};

struct Slice {
  int64_t begin_ns = 0;  // wall time of the rank's host, since 1970
  int64_t duration_ns = 0;
  uint64_t meeting =
      0;               // equal for the same collective on all ranks, and for a send and its receive; 0: none
  uint32_t call = 0;   // index
  uint32_t track = 0;  // index
  uint32_t sequence = 0;  // collective: number on its communicator
  uint32_t delay_us = 0;  // GPU work: from the call to its start; Python: CPU time of the thread
  uint32_t extra = 0;     // index into extras; 0: none
  uint32_t launch = 0;    // equal for a call on the host and the work that it launched; 0: none

  int64_t end_ns() const { return begin_ns + duration_ns; }
};

// Calls of a traced function that were too short for slices.
struct ShortCalls {
  int64_t begin_ns = 0;  // as of a slice; of the first call
  int64_t duration_ns = 0;
  int64_t total_ns = 0;
  uint64_t calls = 0;
  uint32_t thread = 0;
  std::string name;
};

struct Communicator {
  uint64_t identity = 0;  // equal on all ranks
  int rank = -1;          // of this process in it
  int size = 0;
  std::string name;
};

// A number over time: from each sample on, until the next one.
struct Counter {
  struct Sample {
    int64_t wall_ns = 0;  // as of a slice
    double value = 0;
  };
  std::string name;  // "CPU time"
  std::string unit;  // "cores"
  std::vector<Sample> samples;
};

// Wall times of the rank's host.
struct Period {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;  // after begin_ns

  bool operator==(const Period&) const = default;
};

struct Activity {
  base::Rank rank = base::kNoRank;
  int local_rank = -1;
  base::Pid pid = 0;
  std::string host;
  std::string gpu;
  std::string backend;  // of torch's default process group: "gloo"; empty: unknown
  std::vector<Track> tracks;
  std::vector<Call> calls;
  std::vector<Slice> slices;
  std::vector<std::vector<Argument>> extras{{}};  // arguments of single slices; index 0: none
  std::vector<Communicator> communicators;
  std::vector<ShortCalls> short_calls;
  std::vector<Counter> counters;
  std::vector<Period> untimed;  // when calls of GPU work may lack slices; in order
  std::vector<Period> sampled;  // of these, between two timed calls with untimed ones between them; in order
  uint64_t lost = 0;            // events that found no room
  bool placed = false;          // begins are not recorded: calls follow those on which they depend
  bool complete = true;         // false if a file was damaged
  std::string damage;           // what was left out; empty: what follows a place in a file, damage_of()

  // Index of the track, which is added if new.
  uint32_t track(TrackKind kind, uint32_t number, std::string_view name = {});
  // The counter, which is added if new. Valid until the next call.
  Counter& counter(std::string_view name, std::string_view unit);
};

// What is missing of a file, in words; empty: nothing.
inline constexpr std::string_view kEndMissing = "the end is missing or damaged";
std::string damage_of(const Activity& activity);

// What equal slices are.
enum class Equal {
  repeated,  // one event: a trace of a run holds events that the rank's own files hold too
  several,   // calls of a file whose clock is too coarse for them
};
// Sorts the slices by begin, the longer first, and removes repetitions.
void put_in_order(Activity& activity, Equal equal = Equal::repeated);
// Finds the call on the host of every slice of a GPU track, by function and time. Needs slices in order.
void link_launches(Activity& activity);

// Rates of a slice: 0 if its call has none or it took no time.
double tflops_of(const Call& call, const Slice& slice);
double bus_gb_per_s(const Call& call, const Slice& slice);  // 1e9 bytes per second

}  // namespace xpurun::report
