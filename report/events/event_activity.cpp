#include "report/events/event_activity.h"

#include "common/base/strings.h"
#include "common/model/speed/kernel_name.h"
#include "common/model/timing/op_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

namespace xpurun::report {

namespace {

using model::EventFile;

Category category_of(uint8_t op_class) {
  switch (static_cast<wire::OpClass>(op_class)) {
    case wire::OpClass::matmul:
      return Category::matmul;
    case wire::OpClass::collective:
      return Category::collective;
    case wire::OpClass::memory:
      return Category::memory;
    case wire::OpClass::graph:
      return Category::graph;
    case wire::OpClass::kernel:
      return Category::kernel;
    default:
      return Category::host;
  }
}

TrackKind track_of(Category category) {
  switch (category) {
    case Category::collective:
      return TrackKind::communication;
    case Category::memory:
      return TrackKind::memory;
    case Category::host:
      return TrackKind::host;
    default:
      return TrackKind::compute;
  }
}

bool is_point_to_point(std::string_view collective) {
  return collective == "SendRecv";
}

int64_t signed_of(uint64_t n) {
  return static_cast<int64_t>(n);
}

void describe_matmul(Call& call, const model::EventKey& key) {
  const std::string shape = shape_text(key);
  const std::string type = model::cuda_type_name(key.dtype[0]);
  call.name = fmt::format("matmul {} {}", shape, type);
  call.arguments.push_back({"shape", shape});
  call.arguments.push_back({"dtype", type});
  call.arguments.push_back({"transposes", transposes_text(key)});
  call.arguments.push_back({"flop", signed_of(call.work)});
}

void describe_collective(Call& call, const model::EventKey& key, const model::EventHow& how,
                         const Communicator* comm) {
  const std::string_view name = model::collective_name(key);
  const std::string type = model::nccl_type_name(key.dtype[0]);
  call.name = fmt::format("{} {} {}", name, base::human_size(call.work), type);
  call.arguments.push_back({"bytes", signed_of(call.work)});
  call.arguments.push_back({"count", key.k});
  call.arguments.push_back({"dtype", type});
  if (key.peer >= 0) {
    call.arguments.push_back({is_point_to_point(name) ? "peer" : "root", int64_t{key.peer}});
  }
  if (how.algorithm != 0) {
    call.arguments.push_back({"algorithm", std::string(model::algorithm_name(how.algorithm))});
  }
  if (how.protocol != 0) {
    call.arguments.push_back({"protocol", std::string(model::protocol_name(how.protocol))});
  }
  if (how.channels != 0) {
    call.arguments.push_back({"channels", int64_t{how.channels}});
  }
  if (comm != nullptr) {
    call.arguments.push_back({"communicator", fmt::format("{:016x}", comm->identity)});
    if (!comm->name.empty()) {
      call.arguments.push_back({"communicator_name", base::sanitize(comm->name)});
    }
    call.arguments.push_back({"communicator_rank", int64_t{comm->rank}});
    call.arguments.push_back({"communicator_size", int64_t{comm->size}});
    call.bus_factor = model::bus_factor(name, comm->size);
  }
}

bool is_captured(const model::TimedEvent& event) {
  return event.source == static_cast<uint8_t>(wire::Source::cupti);
}

// A record of CUPTI: a kernel, a memory operation, or a call of CUDA's interfaces.
Call describe_captured(const EventFile::Op& op) {
  Call call;
  call.category = category_of(op.key.op_class);
  call.captured = true;
  call.function = base::sanitize(op.function);
  call.name = model::kernel_name(op.function);
  call.work = op.work;
  call.key = op.key;
  if (call.category == Category::kernel && model::is_nccl_kernel(op.function)) {
    call.category = Category::collective;
  }
  if (call.category == Category::memory) {
    call.arguments.push_back({"bytes", signed_of(op.work)});
  }
  call.arguments.push_back(
      {"source", std::string(model::source_name(static_cast<uint8_t>(wire::Source::cupti)))});
  return call;
}

Call describe(const EventFile::Op& op, const model::TimedEvent& event, const Communicator* comm) {
  const model::EventKey& key = op.key;
  Call call;
  call.category = category_of(key.op_class);
  call.work = op.work;
  call.key = key;
  call.function = (key.flags & wire::kOpOther) != 0 ? "other" : base::sanitize(op.function);
  call.name = call.function;
  if (call.category == Category::host) {
    return call;
  }
  call.arguments.push_back({"function", call.function});
  if (call.category == Category::matmul) {
    describe_matmul(call, key);
  } else if (call.category == Category::collective) {
    describe_collective(call, key, event.how, comm);
  } else if (call.category == Category::memory) {
    const std::string_view direction = model::copy_direction(key);
    call.name = direction.empty() ? call.function : fmt::format("{} {}", call.function, direction);
    call.arguments.push_back({"bytes", signed_of(op.work)});
    if (!direction.empty()) {
      call.arguments.push_back({"direction", std::string(direction)});
    }
  }
  call.arguments.push_back({"source", std::string(model::source_name(event.source))});
  call.begin_on_host = (event.flags & wire::kEventHostBegin) != 0;
  if (call.begin_on_host) {
    call.arguments.push_back({"begin_is_host", int64_t{1}});
  }
  return call;
}

// Numbers of the rows of captured streams, which are numbered by CUDA, not by us.
constexpr uint32_t kCapturedStreams = 1 << 20;
// Keeps apart from the numbers of link_launches().
constexpr uint32_t kCapturedLaunch = uint32_t{1} << 31;

std::string captured_title(bool host, uint32_t number) {
  return host ? fmt::format("CUDA calls, thread {}", number)
              : fmt::format("captured stream {}", number - kCapturedStreams);
}

// The correlation numbers of captured work on the GPU whose call was captured too.
std::unordered_set<uint32_t> captured_launches(const EventFile& file) {
  std::unordered_set<uint32_t> called;
  std::unordered_set<uint32_t> out;
  if (file.events.empty() || !is_captured(file.events.front().event)) {
    return out;  // a file is all captured, or not at all
  }
  for (const bool gpu : {false, true}) {
    for (const EventFile::Entry& entry : file.events) {
      const auto op = static_cast<wire::OpClass>(file.ops.at(entry.event.op).key.op_class);
      if (!is_captured(entry.event) || (op != wire::OpClass::host) != gpu) {
        continue;
      }
      if (!gpu) {
        called.insert(entry.event.sequence);
      } else if (called.contains(entry.event.sequence)) {
        out.insert(entry.event.sequence);
      }
    }
  }
  return out;
}

// From what an event's call depends on to the call.
class CallTable {
 public:
  explicit CallTable(const EventFile& file, Activity& out)
      : file_(file), out_(out), first_comm_(out.communicators.size()) {
    for (const model::EventCommunicator& c : file.communicators) {
      out.communicators.push_back({c.identity, c.rank, c.nranks, c.name});
    }
  }

  struct Known {
    uint32_t op = 0;
    int communicator = -1;
    uint8_t source = 0;
    uint8_t flags = 0;
    model::EventHow how{};
    uint32_t call = 0;
    OpFacts facts;
  };

  const Known& of(const EventFile::Entry& entry) {
    const model::TimedEvent& e = entry.event;
    if (by_op_.size() <= e.op) {
      by_op_.resize(e.op + 1);
    }
    for (const Known& k : by_op_[e.op]) {
      if (k.communicator == entry.communicator && k.source == e.source && k.flags == e.flags &&
          k.how == e.how) {
        return k;
      }
    }
    const EventFile::Op& op = file_.ops.at(e.op);
    const Communicator* comm =
        entry.communicator < 0 ? nullptr
                               : &out_.communicators[first_comm_ + static_cast<size_t>(entry.communicator)];
    Known known{.op = e.op,
                .communicator = entry.communicator,
                .source = e.source,
                .flags = e.flags,
                .how = e.how,
                .call = static_cast<uint32_t>(out_.calls.size()),
                .facts = facts_of(file_, op, entry)};
    out_.calls.push_back(is_captured(e) ? describe_captured(op) : describe(op, e, comm));
    out_.calls.back().ends_together = known.facts.ends_together;
    out_.calls.back().message = known.facts.pairs;
    if (comm != nullptr) {
      out_.calls.back().communicator = static_cast<int>(comm - out_.communicators.data());
    }
    return by_op_[e.op].emplace_back(known);
  }

 private:
  const EventFile& file_;
  Activity& out_;
  size_t first_comm_;
  std::vector<std::vector<Known>> by_op_;
};

}  // namespace

int64_t WallClock::wall_ns(uint64_t mono_ns) {
  const auto at = static_cast<base::MonoNs>(mono_ns);
  if ((at_ > 0 && pairs_[at_].mono_ns > at) || (at_ + 1 < pairs_.size() && pairs_[at_ + 1].mono_ns <= at)) {
    at_ = model::clocks_at(pairs_, at);
  }
  return static_cast<int64_t>(static_cast<uint64_t>(pairs_[at_].wall_ns) + mono_ns -
                              static_cast<uint64_t>(pairs_[at_].mono_ns));
}

void add_events(Activity& activity, const EventFile& file) {
  CallTable calls(file, activity);
  WallClock clock(file.clocks);
  activity.slices.reserve(activity.slices.size() + file.events.size());
  // The last track of each kind, because neighbours are mostly alike.
  std::array<std::pair<uint32_t, uint32_t>, model::kNames<TrackKind>.size()> last{};
  std::array<bool, model::kNames<TrackKind>.size()> is_known{};
  const std::unordered_set<uint32_t> launches = captured_launches(file);
  for (const EventFile::Entry& entry : file.events) {
    const model::TimedEvent& e = entry.event;
    const CallTable::Known& known = calls.of(entry);
    const Call& call = activity.calls[known.call];
    const bool host = call.category == Category::host;
    const bool captured = is_captured(e);
    // All captured work of a stream is in one row, apart from the rows of the timed calls.
    const TrackKind kind = captured && !host ? TrackKind::compute : track_of(call.category);
    const uint32_t number = host ? e.delay_us : captured ? kCapturedStreams + e.stream : e.stream;
    const auto k = static_cast<size_t>(kind);
    if (!is_known[k] || last[k].first != number) {
      last[k] = {number, activity.track(kind, number, captured ? captured_title(host, number) : "")};
      is_known[k] = true;
    }
    const int64_t begin = clock.wall_ns(e.begin_ns);
    const uint64_t duration = std::min(e.duration_ns, static_cast<uint64_t>(kLongestNs));
    if (begin < 0 || begin > kLatestNs) {
      activity.complete = false;
      continue;
    }
    activity.slices.push_back(
        {.begin_ns = begin,
         .duration_ns = static_cast<int64_t>(duration),
         .meeting = known.facts.meets || known.facts.pairs
                        ? meeting_of(known.facts.identity, known.facts.size, e.sequence)
                        : 0,
         .call = known.call,
         .track = last[k].second,
         .sequence = call.category == Category::collective && !captured ? e.sequence : 0,
         .delay_us = host ? 0 : e.delay_us,
         .launch = captured && launches.contains(e.sequence) ? kCapturedLaunch | e.sequence : 0});
  }
  activity.lost += file.lost;
  activity.complete = activity.complete && file.complete;
}

}  // namespace xpurun::report
