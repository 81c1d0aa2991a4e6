#include "launcher/collect/collector.h"

#include "common/model/timing/op_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace xpurun::launcher {

namespace {

// Ranks come and go (restarts). More segments than this mean an error or an attack.
constexpr size_t kMostSegments = 256;
// A series without a new sample for this long is dropped.
constexpr double kStaleS = 300;
// Distance in seconds, and number, of the time points that rates are computed from.
constexpr double kMarkS = 1;
constexpr size_t kMarks = 11;
// The levels of XPU_TIMER_COLL_KERNEL_* are 20 steps of a 400 Gbit/s network card.
constexpr double kNetworkGbps = 400;
constexpr int kCollectiveLevels = 20;
constexpr int kMatmulLevels = 10;
// An unknown device counts as the slowest device that people train on.
constexpr double kUnknownPeakFlops = 312e12;
// For shorter calls the cost of the events themselves would dominate.
constexpr double kShortestForBestS = 100e-6;

bool is_ready(const wire::OpEntry& op) {
  return op.state.load(std::memory_order_acquire) == static_cast<uint32_t>(wire::SlotState::ready);
}

std::string text_of(const char* bytes, size_t size) {
  std::string out(bytes, ::strnlen(bytes, size));
  std::erase_if(out, [](char c) { return c < ' ' || c > '~'; });
  return out;
}

std::string uuid_of(const char (&bytes)[16]) {
  std::string out = "GPU-";
  bool any = false;
  for (size_t i = 0; i < sizeof bytes; ++i) {
    out += fmt::format("{:02x}", static_cast<unsigned char>(bytes[i]));
    out += i == 3 || i == 5 || i == 7 || i == 9 ? "-" : "";
    any = any || bytes[i] != 0;
  }
  return any ? out : "";
}

Health health_of(const wire::Health& h) {
  Health out;
  for (const HealthField& field : kHealthFields) {
    out.*field.value = h.*field.counter;
  }
  return out;
}

// The signatures that are not being written right now.
std::vector<CollectiveSignature> signatures_of(const wire::Segment& memory, size_t comm) {
  std::vector<CollectiveSignature> out;
  for (const wire::Signature& s : memory.signatures[comm]) {
    const uint64_t before = s.sequence.load(std::memory_order_acquire);
    const uint64_t op = s.op;
    const uint64_t count = s.count;
    const uint64_t called_ns = s.called_ns;
    const uint64_t hash = s.hash;
    if (before != 0 && s.sequence.load() == before) {
      out.push_back({before, static_cast<uint16_t>(op), static_cast<uint8_t>(op >> 16),
                     static_cast<uint8_t>(op >> 24), static_cast<int>(static_cast<uint32_t>(op >> 32)), count,
                     called_ns, hash});
    }
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
  return out;
}

ShapeKey shape_of(const wire::OpKey& key) {
  return {key.batch, key.m, key.n, key.k};
}

void add_sample(std::deque<RecentSeries::Sample>& samples, const RecentSeries::Sample& sample) {
  samples.push_back(sample);
  if (samples.size() > RecentSeries::kMost) {
    samples.pop_front();
  }
}

int level_of(double share, int levels) {
  return std::clamp(static_cast<int>(share * levels) + 1, 1, levels);
}

}  // namespace

void Histogram::add(double seconds) {
  const auto at = std::lower_bound(kBoundsS.begin(), kBoundsS.end(), seconds);
  ++counts[static_cast<size_t>(at - kBoundsS.begin())];
  sum_s += seconds;
}

uint64_t Histogram::total() const {
  uint64_t sum = 0;
  for (const uint64_t n : counts) {
    sum += n;
  }
  return sum;
}

base::Result<int> Collector::attach(base::Pid pid) {
  if (segments_.size() >= kMostSegments) {
    return base::fail(fmt::format("more than {} processes use a GPU", kMostSegments));
  }
  XPURUN_TRY_ASSIGN(SharedSegment segment, SharedSegment::create(level_, budget_ppm_));
  segment.set_host_events(host_events_);
  segment.set_every(every_);
  segments_.erase(pid);
  const auto [it, made] = segments_.emplace(pid, Timed{std::move(segment), {}, {}});
  return it->second.segment.fd();
}

void Collector::sent(base::Pid pid) {
  if (const auto it = segments_.find(pid); it != segments_.end()) {
    it->second.segment.close_fd();
  }
}

void Collector::set_level(wire::Level level) {
  level_ = level;
  for (auto& [pid, timed] : segments_) {
    timed.segment.set_level(level);
  }
}

void Collector::set_every(wire::Every every) {
  if (every == every_) {
    return;
  }
  every_ = every;
  for (auto& [pid, timed] : segments_) {
    timed.segment.set_every(every);
  }
}

void Collector::set_host_events(HostEvents wanted) {
  host_events_ = wanted;
  for (auto& [pid, timed] : segments_) {
    timed.segment.set_host_events(wanted);
  }
}

std::vector<base::Pid> Collector::pids() const {
  std::vector<base::Pid> out;
  for (const auto& [pid, timed] : segments_) {
    out.push_back(pid);
  }
  return out;
}

void Collector::add_event(Timed& timed, const wire::Event& event, base::MonoNs now) const {
  const wire::Segment& memory = timed.segment.memory();
  RankTiming& t = timed.timing;
  const wire::OpEntry& op = memory.ops[event.op];
  const double seconds = static_cast<double>(event.duration_ns) * 1e-9;
  const wire::OpSums sums = wire::totals_of(memory, event.op);
  // All calls of one entry do the same work, so each has an equal share of the entry's total.
  const double work = sums.calls == 0 ? 0 : static_cast<double>(sums.work) / static_cast<double>(sums.calls);
  RecentKey key{.op_class = static_cast<wire::OpClass>(op.key.op_class)};
  RecentSeries::Sample sample{.at = now, .us = seconds * 1e6, .work = work};
  RecentSeries labels;
  if (key.op_class == wire::OpClass::matmul) {
    labels.dtype = model::cuda_type_name(op.key.dtype[0]);
    t.matmul_durations[labels.dtype].add(seconds);
    const double known = peaks_.of(t.device_name, op.key.dtype[0], op.key.compute);
    const double peak = known > 0 ? known : kUnknownPeakFlops;
    if (seconds >= kShortestForBestS) {
      double& best = t.best_flops[labels.dtype];
      best = std::max(best, work / seconds);
    }
    if (keep_shapes_) {
      add_sample(t.shapes[shape_of(op.key)].samples, sample);
    }
    key.operation = "Matmul";
    key.level = level_of(seconds > 0 ? work / seconds / peak : 0, kMatmulLevels);
  } else if (key.op_class == wire::OpClass::collective && op.key.comm < wire::kCommSlots) {
    const int ranks = memory.comms[op.key.comm].nranks.load();
    key.operation = model::collective_name(op.key);
    labels.dtype = model::nccl_type_name(op.key.dtype[0]);
    t.collective_durations[key.operation].add(seconds);
    WayTotals& way = t.collective_ways[{event.source, event.how.algorithm, event.how.protocol}];
    ++way.calls;
    way.channels += event.how.channels;
    if (event.how.algorithm != 0) {
      t.how_by_op[event.op] = event.how;
      labels.how = event.how;
    }
    sample.work = work * model::bus_factor(key.operation, ranks) * 8;
    labels.small = sample.work <= 8192;
    key.level = level_of(seconds > 0 ? sample.work / seconds / 1e9 / kNetworkGbps : 0, kCollectiveLevels);
  } else {
    return;
  }
  RecentSeries& series = t.recent[key];
  series.dtype = labels.dtype;
  series.small = labels.small;
  series.how = labels.how;
  add_sample(series.samples, sample);
}

// A rate covers the time from the oldest to the newest time point.
void Collector::mark(Timed& timed, base::MonoNs now) const {
  if (!timed.marks.empty() && base::ns_to_s(now - timed.marks.back().at) < kMarkS) {
    return;
  }
  Mark mark{.at = now};
  const wire::Segment& memory = timed.segment.memory();
  for (uint32_t i = 0; i < wire::kOpSlots; ++i) {
    const wire::OpEntry& op = memory.ops[i];
    const auto op_class = static_cast<wire::OpClass>(op.key.op_class);
    if (!is_ready(op)) {
      continue;
    }
    const wire::OpSums sums = wire::totals_of(memory, i);
    if (op_class == wire::OpClass::collective) {
      mark.collectives += sums.calls;
    } else if (op_class == wire::OpClass::matmul) {
      mark.flop += static_cast<double>(sums.work);
      if (keep_shapes_) {
        mark.shape_calls[shape_of(op.key)] += sums.calls;
      }
    }
  }
  timed.marks.push_back(std::move(mark));
  if (timed.marks.size() > kMarks) {
    timed.marks.pop_front();
  }
  const Mark& first = timed.marks.front();
  const Mark& last = timed.marks.back();
  const double seconds = base::ns_to_s(last.at - first.at);
  if (seconds <= 0) {
    return;
  }
  timed.timing.rates = {
      .flops_per_s = (last.flop - first.flop) / seconds,
      .collectives_per_s = static_cast<double>(last.collectives - first.collectives) / seconds};
  const auto calls_in = [](const Mark& m, const ShapeKey& shape) {
    const auto it = m.shape_calls.find(shape);
    return it == m.shape_calls.end() ? 0 : it->second;
  };
  for (auto& [shape, series] : timed.timing.shapes) {
    series.calls = calls_in(last, shape);
    series.calls_per_s = static_cast<double>(series.calls - calls_in(first, shape)) / seconds;
  }
}

void Collector::request_capture(base::Pid pid, uint32_t number) {
  if (const auto found = segments_.find(pid); found != segments_.end()) {
    found->second.segment.request_capture(number);
  }
}

void Collector::drain(base::MonoNs now) {
  for (auto& [pid, timed] : segments_) {
    const wire::Segment& memory = timed.segment.memory();
    std::vector<wire::Event> events = timed.segment.drain();
    std::erase_if(events, [&](const wire::Event& event) {
      return event.op >= wire::kOpSlots || !is_ready(memory.ops[event.op]);
    });
    if (!events.empty()) {
      refresh_identity(timed);
    }
    for (const wire::Event& event : events) {
      add_event(timed, event, now);
    }
    if (on_events_ && !events.empty()) {
      on_events_(pid, timed.timing, events, memory);
    }
    mark(timed, now);
    std::erase_if(timed.timing.shapes, [now](const auto& entry) {
      return base::ns_to_s(now - entry.second.samples.back().at) > kStaleS;
    });
    std::erase_if(timed.timing.recent, [now](const auto& entry) {
      return base::ns_to_s(now - entry.second.samples.back().at) > kStaleS;
    });
  }
}

void Collector::refresh_identity(Timed& timed) {
  const wire::SegmentHeader& header = timed.segment.memory().header;
  RankTiming& t = timed.timing;
  t.device_name = text_of(header.device_name, sizeof header.device_name);
  t.device_uuid = uuid_of(header.device_uuid);
  t.pci_bus_id = text_of(header.pci_bus_id, sizeof header.pci_bus_id);
  t.health = health_of(header.health);
}

void Collector::refresh(Timed& timed) {
  refresh_identity(timed);
  const wire::Segment& memory = timed.segment.memory();
  const wire::SegmentHeader& header = memory.header;
  RankTiming& t = timed.timing;
  t.level = static_cast<wire::Level>(header.level.load());
  t.period = header.period.load();
  t.state = static_cast<wire::RankState>(header.state.load());
  t.off_reason = static_cast<wire::OffReason>(header.off_reason.load());
  t.nccl_version = header.nccl_version.load();
  t.event_overhead_ns = header.event_overhead_ns.load();
  t.event_overhead_is_off = header.event_overhead_is_off.load() != 0;
  t.events_made = header.events_made.load();
  t.events_in_flight = header.events_in_flight.load();
  t.profiler = static_cast<wire::ProfilerState>(header.profiler.state.load());
  t.profiler_version = header.profiler.version.load();
  t.profiler_chain = static_cast<wire::ChainState>(header.profiler.chain.load());
  t.ops.clear();
  for (uint32_t i = 0; i < wire::kOpSlots; ++i) {
    const wire::OpEntry& op = memory.ops[i];
    if (is_ready(op)) {
      const auto how = t.how_by_op.find(i);
      const wire::OpSums sums = wire::totals_of(memory, i);
      t.ops.push_back({op.key, sums.calls, sums.work, op.captured, op.timed, op.timed_ns, op.timed_work,
                       how == t.how_by_op.end() ? wire::CollectiveHow{} : how->second});
    }
  }
  t.comms.clear();
  for (size_t i = 0; i < wire::kCommSlots; ++i) {
    const wire::CommEntry& comm = memory.comms[i];
    const uint32_t state = comm.state.load(std::memory_order_acquire);
    t.comms.push_back(
        {.state = state,
         .flags = comm.flags,
         .identity = comm.identity,
         .rank = comm.rank,
         .nranks = comm.nranks,
         .name = text_of(comm.name, sizeof comm.name),
         .called = comm.called,
         .launched = comm.launched,
         .started = comm.started,
         .done = comm.done,
         .marked = comm.marked,
         .sends = comm.sends,
         .receives = comm.receives,
         .messages_launched = comm.point_to_point_launched,
         .messages_done = comm.point_to_point_done,
         .last_change_ns = comm.last_change_ns,
         .last = comm.called > 0 ? signatures_of(memory, i) : std::vector<CollectiveSignature>()});
  }
}

const RankTiming* Collector::read(const TimedProcess& process) {
  const auto it = segments_.find(process.pid);
  if (it == segments_.end()) {
    return nullptr;
  }
  refresh(it->second);
  it->second.timing.rank = process.rank;
  it->second.timing.local_rank = process.local_rank;
  it->second.timing.pid = process.pid;
  return &it->second.timing;
}

}  // namespace xpurun::launcher
