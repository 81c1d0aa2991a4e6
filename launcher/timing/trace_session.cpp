#include "launcher/timing/trace_session.h"

#include "common/base/output/log.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

namespace xpurun::launcher {

namespace {

// Time between raising the level and the start of a trace: a rank notices a new level within a few
// milliseconds.
constexpr double kRaiseS = 0.1;
// Time limit for the disk; then the requester is answered all the same.
constexpr double kWritingPatienceS = 2;

}  // namespace

void TraceSession::start(TraceRequest request, Ended ended) {
  std::string dir = fmt::format("traces/{}", ++count_);
  if (!request.name.empty()) {
    dir += "-" + request.name;
  }
  const std::string path = fmt::format("{}/{}", run_dir_, dir);
  parts_.storage.make_dirs(path);
  const base::MonoNs now = parts_.loop.now();
  const base::MonoNs start = request.start_wall_ns == 0
                                 ? now + base::s_to_ns(kRaiseS)
                                 : std::max(now, now + request.start_wall_ns - base::wall_ns());
  request.start_wall_ns = base::wall_ns() + (start - now);
  base::log_info("{} events of every rank into {}, in {:.1f} s", request.count, path,
                 base::ns_to_s(start - now));
  current_.emplace(Current{.trace = Trace(parts_.storage, std::move(request), path, start),
                           .dir = std::move(dir),
                           .ended = std::move(ended)});
  timer_.at(start - base::s_to_ns(kRaiseS), [this] { raise(); });
}

void TraceSession::raise() {
  current_->raised = true;
  level_changed_();
  const bool host = (current_->trace.request().kinds & kTraceHost) != 0;
  parts_.collector.set_host_events(host ? HostEvents::yes : HostEvents::no);
  timer_.at(current_->trace.start(), [this] { begin(); });
}

void TraceSession::begin() {
  // Calls that ended before the start do not belong to the trace; draining removes them from the rings.
  parts_.collector.drain(parts_.loop.now());
  current_->begun = true;
  size_t expected = 0;
  const auto timed = parts_.collector.pids();
  for (const TrackedProcess* p : parts_.table.living_ranks()) {
    if (std::find(timed.begin(), timed.end(), p->record.pid) != timed.end()) {
      current_->trace.expect(p->record.rank);
      ++expected;
    }
  }
  if (expected == 0) {
    end("no rank uses a GPU");
    return;
  }
  timer_.after(current_->trace.request().timeout_s, [this] { end(kTraceTimeout); });
}

void TraceSession::add(const EventFiles::Source& who, std::span<const wire::Event> events,
                       const wire::Segment& memory) {
  if (current_ && current_->begun) {
    current_->trace.add(who, events, memory);
  }
}

void TraceSession::end_if_complete() {
  if (!current_ || !current_->begun) {
    return;
  }
  std::set<base::Rank> living;
  for (const TrackedProcess* p : parts_.table.living_ranks()) {
    living.insert(p->record.rank);
  }
  if (current_->trace.complete(living)) {
    end(current_->trace.request().count_is_limit ? kTraceLimit : kTraceComplete);
  }
}

void TraceSession::end(std::string_view how) {
  if (!current_) {
    return;
  }
  timer_.stop();
  auto done = std::make_shared<Current>(std::move(*current_));
  current_.reset();
  level_changed_();
  parts_.collector.set_host_events(HostEvents::no);
  done->trace.flush();
  // trace.json is written second: it says which events are not on disk.
  Storage& storage = parts_.storage;
  storage.when_written(kWritingPatienceS, [&storage, done, why = std::string(how)](Written) {
    done->trace.finish(why);
    base::log_info("trace {} ended: {}", done->dir, why);
    storage.when_written(kWritingPatienceS, [done, why](Written) {
      if (done->ended) {
        done->ended(done->dir, why);
      }
    });
  });
}

}  // namespace xpurun::launcher
