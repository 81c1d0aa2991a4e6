#include "launcher/mpi/mpi_spans.h"

#include "common/wire/mpi_functions.h"
#include "launcher/mpi/mpi_segments.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::launcher {

namespace {

using wire::kMpiTimed;
using wire::MpiKind;

constexpr size_t kMostWaiting = 65536;
constexpr double kCountS = 1;
constexpr uint64_t kLatestNs = uint64_t{1} << 61;  // sums of two fit

// The meeting at which the call may wait: the communicator, or the two ends of a message with this tag.
std::string group_of(const wire::MpiSegment& memory, const wire::MpiTime& call) {
  if (call.comm >= wire::kMpiComms || call.sequence == 0) {
    return "";
  }
  const wire::MpiComm& comm = memory.comms[call.comm];
  const std::string id = id_of(comm);
  if (info_of(call.function).at.tag == wire::kNoArgument && call.peer < 0) {
    return id;
  }
  const int own = comm.rank.load();
  if (call.peer < 0 || own < 0 || (comm.flags.load() & wire::kMpiCommInter) != 0) {
    return "";
  }
  const auto peer = static_cast<uint64_t>(call.peer);
  const auto rank = static_cast<uint64_t>(own);
  return model::pair_group(call.tag == 0 ? id : fmt::format("{} tag {}", id, call.tag),
                           call.receives != 0 ? peer : rank, call.receives != 0 ? rank : peer, false);
}

}  // namespace

void MpiSpans::take_new(const wire::MpiSegment& memory) {
  // A writer may run as fast as this loop.
  for (uint32_t i = 0; i < 2 * kMpiTimed; ++i) {
    const wire::MpiTimedCall& slot = memory.timed[(next_ - 1) % kMpiTimed];
    const uint64_t found = slot.number.load(std::memory_order_acquire);
    if (found < next_) {
      return;
    }
    if (found > next_) {
      // The ring has turned. The call behind this place is the oldest that is left.
      const uint64_t oldest = std::max(found - kMpiTimed + 1, next_ + 1);
      lost_ += oldest - next_;
      next_ = oldest;
      continue;
    }
    const wire::MpiTime time = slot.time;
    std::atomic_thread_fence(std::memory_order_acquire);
    if (slot.number.load(std::memory_order_relaxed) != next_) {
      continue;  // it was overwritten in the meantime
    }
    ++next_;
    if (time.begin_ns < kLatestNs && time.duration_ns < kLatestNs && time.function > 0 &&
        time.function < wire::kMpiFunctionCount) {
      waiting_.push_back(time);
    } else {
      ++lost_;
    }
  }
}

// What was called and not timed took as long as what was timed at the same place.
void MpiSpans::count(const wire::MpiSegment& memory, const Texts& texts, base::MonoNs now, Found& out) {
  for (size_t i = 0; i < wire::kMpiSites; ++i) {
    const wire::MpiSite& site = memory.sites[i];
    const uint64_t caller = site.caller.load();
    if (caller == 0) {
      continue;
    }
    Counted& before = counted_[i];
    const Counted total{.calls = site.calls.load(),
                        .bytes = site.bytes.load(),
                        .timed = site.timed.load(),
                        .timed_ns = site.timed_ns.load()};
    const uint64_t calls = total.calls - before.calls;
    const uint64_t timed = total.timed - before.timed;
    const bool grown = total.calls >= before.calls && total.timed >= before.timed &&
                       total.bytes >= before.bytes && total.timed_ns >= before.timed_ns;
    if (!grown || calls <= timed) {
      before = grown && calls == timed ? total : before;
      continue;
    }
    const double others = static_cast<double>(calls - timed);
    const double each_ns =
        total.timed == 0 ? 0
        : timed > 0      ? static_cast<double>(total.timed_ns - before.timed_ns) / static_cast<double>(timed)
                         : static_cast<double>(total.timed_ns) / static_cast<double>(total.timed);
    out.others.push_back(
        {.begin_ns = counted_at_,
         .duration_ns = now - counted_at_,
         .total_ns = static_cast<int64_t>(std::min(others * each_ns, static_cast<double>(now - counted_at_))),
         .calls = calls - timed,
         .name = texts.index(std::string(info_of(site.function.load()).name)),
         .thread = static_cast<uint32_t>(std::max(memory.threads[0].tid.load(), 0)),
         .place = texts.index(texts.place(caller).value_or("")),
         .bytes = static_cast<uint64_t>(static_cast<double>(total.bytes - before.bytes) * others /
                                        static_cast<double>(calls))});
    before = total;
  }
  counted_at_ = now;
}

// Together, because each start of the helper that looks them up takes a while.
void MpiSpans::ask_for_places(const wire::MpiSegment& memory, const Texts& texts) {
  for (size_t i = 0; i < wire::kMpiSites; ++i) {
    const uint64_t caller = memory.sites[i].caller.load();
    placed_[i] = placed_[i] || (caller != 0 && texts.place(caller));
  }
}

MpiSpans::Found MpiSpans::read(const wire::MpiSegment& memory, const Texts& texts, base::MonoNs now,
                               bool last) {
  Found out;
  counted_at_ = counted_at_ == 0 ? now : counted_at_;
  take_new(memory);
  ask_for_places(memory, texts);
  while (!waiting_.empty()) {
    const wire::MpiTime& call = waiting_.front();
    const std::optional<std::string> place = texts.place(call.caller);
    if (!place && waiting_.size() < kMostWaiting) {
      break;
    }
    const std::string group = group_of(memory, call);
    const std::string name(info_of(call.function).name);
    out.spans.push_back({.begin_ns = static_cast<base::MonoNs>(call.begin_ns),
                         .duration_ns = static_cast<int64_t>(call.duration_ns),
                         .cpu_ns = 0,
                         .stage = model::Stage::communication,
                         .name = texts.index(name),
                         .place = texts.index(place.value_or("")),
                         .thread = static_cast<uint32_t>(std::max(call.tid, 0)),
                         .group = texts.index(group),
                         .sequence = call.sequence,
                         .bytes = call.bytes,
                         .mpi_collective = model::is_mpi_collective(name, group)});
    waiting_.pop_front();
  }
  if (waiting_.empty() && (last || base::ns_to_s(now - counted_at_) >= kCountS)) {
    count(memory, texts, now, out);
  }
  return out;
}

}  // namespace xpurun::launcher
