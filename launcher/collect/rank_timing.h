// RankTiming: the counts and durations of one process at one moment: a copy of its segment plus statistics of
// the events drained from it. Plain data. Collector fills it, metrics reads it.
#pragma once

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/wire/segment.h"

#include <array>
#include <atomic>
#include <deque>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

// Cumulative histogram of durations.
struct Histogram {
  static constexpr std::array<double, 6> kBoundsS = {1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 1e-1};
  std::array<uint64_t, kBoundsS.size() + 1> counts{};  // the last one: all longer durations
  double sum_s = 0;

  void add(double seconds);
  uint64_t total() const;
};

// The newest durations of the calls that one XPU_TIMER_* series covers.
struct RecentSeries {
  struct Sample {
    base::MonoNs at;
    double us;
    double work;  // FLOP, or bits on the bus
  };
  static constexpr size_t kMost = 512;

  std::deque<Sample> samples;
  // Labels of the newest sample; not part of the key.
  std::string dtype;
  bool small = false;
  wire::CollectiveHow how{};
};

// Key of a series: class, then throughput level, then operation.
struct RecentKey {
  wire::OpClass op_class = wire::OpClass::none;
  int level = 0;
  std::string operation;
  auto operator<=>(const RecentKey&) const = default;
};

// Statistics per matmul shape, as the first generation of XPU_TIMER kept them.
struct ShapeKey {
  uint32_t batch = 0;  // 0 or 1: not batched
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  auto operator<=>(const ShapeKey&) const = default;
};
struct ShapeSeries {
  std::deque<RecentSeries::Sample> samples;
  uint64_t calls = 0;  // so far
  double calls_per_s = 0;
};

// Rates over about the last ten seconds, from exact counts.
struct Rates {
  double flops_per_s = 0;  // of matrix multiplications, in FLOP/s
  double collectives_per_s = 0;
};

struct OpTotals {
  wire::OpKey key;
  uint64_t calls = 0;
  uint64_t work = 0;
  uint64_t captured = 0;
  uint64_t timed = 0;
  uint64_t timed_ns = 0;
  uint64_t timed_work = 0;
  wire::CollectiveHow how{};  // of the last timed collective, if NCCL has reported it
};

// Number of timed collectives by time source and by NCCL algorithm and protocol.
struct CollectiveWay {
  uint8_t source = 0;     // wire::Source
  uint8_t algorithm = 0;  // wire::Algorithm
  uint8_t protocol = 0;   // wire::Protocol
  auto operator<=>(const CollectiveWay&) const = default;
};
struct WayTotals {
  uint64_t calls = 0;
  uint64_t channels = 0;  // sum over the collectives
};

struct CollectiveSignature {
  uint64_t sequence = 0;
  uint16_t api = 0;
  uint8_t type = 0;  // ncclDataType_t
  uint8_t op = 0;    // ncclRedOp_t
  int root = -1;
  uint64_t count = 0;
  uint64_t called_ns = 0;  // CLOCK_MONOTONIC
  uint64_t hash = 0;       // of all calls up to this one
};

struct CommTotals {
  uint32_t state = 0;
  uint32_t flags = 0;
  uint64_t identity = 0;
  int rank = -1;
  int nranks = 0;
  std::string name;
  uint64_t called = 0;
  uint64_t launched = 0;
  uint64_t started = 0;
  uint64_t done = 0;
  uint64_t marked = 0;  // last collective with a completion event; `done` does not cover later ones
  uint64_t sends = 0;
  uint64_t receives = 0;
  uint64_t messages_launched = 0;  // sends and receives
  uint64_t messages_done = 0;
  uint64_t last_change_ns = 0;
  std::vector<CollectiveSignature> last;  // by sequence number

  bool live() const { return state == static_cast<uint32_t>(wire::CommState::live); }
  // Whether `done` is exact. If a completion event has not been reached, no later collective has finished
  // either. After the last event, nothing is known.
  bool done_known() const { return launched == 0 || done < marked || marked >= launched; }
  // Launched collectives that have not finished.
  uint64_t outstanding() const { return live() && done_known() && launched > done ? launched - done : 0; }
};

// A copy of the preload library's counters about itself (wire::Health, docs/wire.md).
struct Health {
  uint64_t hooked_calls = 0;
  uint64_t own_ns = 0;
  uint64_t poller_cpu_ns = 0;
  uint64_t samples = 0;
  uint64_t completed = 0;
  uint64_t no_event = 0;
  uint64_t stream_full = 0;
  uint64_t queue_full = 0;
  uint64_t ring_dropped = 0;
  uint64_t table_full = 0;
  uint64_t captured = 0;
  uint64_t cuda_errors = 0;
  uint64_t comms_full = 0;
  uint64_t kernel_launches = 0;
  uint64_t event_host_ns = 0;
  uint64_t profiler_samples = 0;
  uint64_t profiler_host_ns = 0;
  uint64_t profiler_full = 0;
  uint64_t profiler_lost = 0;
};

struct HealthField {
  std::string_view name;  // key in timing.json
  uint64_t Health::*value;
  std::atomic<uint64_t> wire::Health::*counter;
  // Label "stage" of xpurun_events_dropped; empty: not part of that metric.
  std::string_view dropped_at;
};
// The one list of the fields. The copy, timing.json and the metric of dropped events all use it.
inline constexpr HealthField kHealthFields[] = {
    {"hooked_calls", &Health::hooked_calls, &wire::Health::hooked_calls, ""},
    {"own_ns", &Health::own_ns, &wire::Health::own_ns, ""},
    {"poller_cpu_ns", &Health::poller_cpu_ns, &wire::Health::poller_cpu_ns, ""},
    {"samples", &Health::samples, &wire::Health::samples, ""},
    {"completed", &Health::completed, &wire::Health::completed, ""},
    {"no_event", &Health::no_event, &wire::Health::no_event, "event_pool"},
    {"stream_full", &Health::stream_full, &wire::Health::stream_full, "stream"},
    {"queue_full", &Health::queue_full, &wire::Health::queue_full, "queue"},
    {"ring_dropped", &Health::ring_dropped, &wire::Health::ring_dropped, "ring"},
    {"table_full", &Health::table_full, &wire::Health::table_full, "table"},
    {"captured", &Health::captured, &wire::Health::captured, ""},
    {"cuda_errors", &Health::cuda_errors, &wire::Health::cuda_errors, ""},
    {"comms_full", &Health::comms_full, &wire::Health::comms_full, "communicators"},
    {"kernel_launches", &Health::kernel_launches, &wire::Health::kernel_launches, ""},
    {"event_host_ns", &Health::event_host_ns, &wire::Health::event_host_ns, ""},
    {"profiler_samples", &Health::profiler_samples, &wire::Health::profiler_samples, ""},
    {"profiler_host_ns", &Health::profiler_host_ns, &wire::Health::profiler_host_ns, ""},
    {"profiler_full", &Health::profiler_full, &wire::Health::profiler_full, "profiler"},
    {"profiler_lost", &Health::profiler_lost, &wire::Health::profiler_lost, "profiler_lost"},
};
static_assert(sizeof(Health) == std::size(kHealthFields) * sizeof(uint64_t), "every field is in the list");

struct RankTiming {
  base::Rank rank = base::kNoRank;
  int local_rank = -1;
  base::Pid pid = 0;
  wire::Level level = wire::Level::off;
  uint32_t period = 1;
  wire::RankState state = wire::RankState::none;
  wire::OffReason off_reason = wire::OffReason::none;
  std::string device_name;
  std::string device_uuid;  // "GPU-..." as nvidia-smi writes it; empty if unknown
  std::string pci_bus_id;
  uint32_t nccl_version = 0;
  uint64_t event_overhead_ns = 0;      // of a pair of events; 0: unknown
  bool event_overhead_is_off = false;  // has been subtracted from durations
  uint32_t events_made = 0;            // in advance
  uint32_t events_in_flight = 0;
  wire::ProfilerState profiler = wire::ProfilerState::none;
  uint32_t profiler_version = 0;
  wire::ChainState profiler_chain = wire::ChainState::none;
  Health health;
  std::vector<OpTotals> ops;
  std::vector<CommTotals> comms;                          // by index in the segment
  std::map<std::string, Histogram> matmul_durations;      // by data type
  std::map<std::string, double> best_flops;               // highest FLOP/s of a timed call, by data type
  std::map<std::string, Histogram> collective_durations;  // by operation
  std::map<CollectiveWay, WayTotals> collective_ways;
  std::map<uint32_t, wire::CollectiveHow> how_by_op;  // by index in the segment
  std::map<RecentKey, RecentSeries> recent;
  std::map<ShapeKey, ShapeSeries> shapes;  // only if requested
  Rates rates;
};

}  // namespace xpurun::launcher
