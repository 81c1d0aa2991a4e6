#include "launcher/timing/timing_service.h"

#include "common/base/output/log.h"
#include "launcher/collect/calls/collective_facts.h"
#include "launcher/collect/timing_json.h"
#include "launcher/metrics/exposition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <map>
#include <utility>

namespace xpurun::launcher {

namespace {

constexpr double kDrainS = 0.1;
// With this many segments of a megabyte each, the segments of dead processes are released.
constexpr size_t kCrowd = 200;

std::string environment_or(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') {
      return value;
    }
  }
  return "";
}

uint32_t budget_ppm(const RunOptions& options) {
  return static_cast<uint32_t>(std::lround(options.overhead_budget * 1e6));
}

}  // namespace

TimingService::TimingService(Parts parts, model::RunDir dir, std::string host, Hooks hooks)
    : parts_(parts),
      dir_(std::move(dir)),
      host_(std::move(host)),
      hooks_(std::move(hooks)),
      collector_(static_cast<wire::Level>(parts.options.timing), budget_ppm(parts.options)),
      event_files_(parts.storage, dir_.file("ranks"), parts.options.event_bytes),
      level_(default_level()),
      looks_(parts.loop, {.step_s = [this] { return hooks_.step_s(); },
                          .changed =
                              [this] {
                                apply_level();
                                lateness_.looking(looks_.looking(), parts_.loop.now());
                              }}),
      trace_({parts.loop, parts.storage, parts.table, collector_}, dir_.path(), [this] { apply_level(); }),
      timelines_(trace_, parts.storage, dir_.path(), parts.options.timelines,
                 {.look = [this] { return look_at_steps(); }, .ranks = [this] { return timed_ranks(); }}) {
  collector_.on_events([this](base::Pid pid, const RankTiming& timing, std::span<const wire::Event> events,
                              const wire::Segment& memory) { events_arrived(pid, timing, events, memory); });
  collector_.use_peaks(parts.options.peaks);
  if (parts.options.shape_metrics) {
    collector_.keep_shapes();
  }
}

wire::Level TimingService::default_level() const {
  return static_cast<wire::Level>(parts_.options.timing);
}

void TimingService::set_level(wire::Level level) {
  level_ = level;
  apply_level();
}

void TimingService::apply_level() {
  collector_.set_level(trace_.raised() ? wire::Level::full : level_);
  collector_.set_every(trace_.raised()    ? wire::Every::call
                       : looks_.looking() ? wire::Every::collective
                                          : wire::Every::none);
  if (const bool now = trace_.raised(); now != std::exchange(every_call_, now)) {
    hooks_.every_call_timed(now);
  }
}

// For a job that restarts its ranks for days.
void TimingService::forget_dead_processes() {
  for (const base::Pid pid : collector_.pids()) {
    const TrackedProcess* p = parts_.table.find(pid);
    if (p == nullptr || !p->alive) {
      collector_.forget(pid);
    }
  }
}

void TimingService::attach(base::Pid pid, const std::function<void(int descriptor)>& answer) {
  const bool first = collector_.empty();
  if (collector_.pids().size() >= kCrowd) {
    forget_dead_processes();
  }
  const auto descriptor = collector_.attach(pid);
  if (!descriptor) {
    base::log_warn("pid {} is not timed: {}", pid, base::to_line(descriptor.error()));
    answer(-1);
    return;
  }
  answer(*descriptor);
  collector_.sent(pid);
  base::log_debug("pid {} uses a GPU and is timed from now on", pid);
  if (parts_.table.find(pid) == nullptr) {
    hooks_.unknown_process(pid);
  }
  if (first) {
    hooks_.first_gpu_use();
    looks_.start();
    drain();
  }
}

void TimingService::events_arrived(base::Pid pid, const RankTiming& timing,
                                   std::span<const wire::Event> events, const wire::Segment& memory) {
  const TrackedProcess* p = parts_.table.find(pid);
  if (p == nullptr || p->record.role != model::ProcessRole::rank) {
    return;
  }
  const EventFiles::Source who{.pid = pid,
                               .rank = p->record.rank,
                               .local_rank = p->record.local_rank,
                               .host = host_,
                               .gpu = timing.device_name,
                               .gpu_uuid = timing.device_uuid};
  event_files_.add(who, events, memory, timing.health.ring_dropped);
  lateness_.add(who.rank, events, memory);
  hooks_.events(who.rank, events, memory);
  trace_.add(who, events, memory);
}

void TimingService::spans_arrived(base::Rank rank, std::span<const model::Span> spans,
                                  const std::vector<std::string>& names) {
  for (const model::Span& span : spans) {
    if (span.stage == model::Stage::garbage) {
      python_[rank].collections = span.sequence;
    } else if (span.stage == model::Stage::data) {
      ++python_[rank].batches;
    }
  }
  // With a GPU, the lateness comes from GPU events.
  if (collector_.empty()) {
    lateness_.add(rank, spans, names);
  }
}

void TimingService::drain() {
  const base::MonoNs now = parts_.loop.now();
  collector_.drain(now);
  lateness_.tick(now);
  look_for_slow_ranks();
  event_files_.flush(now);
  trace_.end_if_complete();
  timelines_.tick();
  drain_timer_.after(kDrainS, [this] { drain(); });
}

void TimingService::look_for_slow_ranks() {
  if (lateness_.looks() == looks_judged_) {
    return;
  }
  looks_judged_ = lateness_.looks();
  std::map<base::Rank, RankLateness> ranks;
  for (const base::Rank rank : timed_ranks()) {
    ranks[rank] = lateness_.of(rank);
  }
  const auto found = slow_ranks_.look(ranks);
  if (const base::Rank over = slow_ranks_.take_over(); over != base::kNoRank) {
    hooks_.no_longer_slow(over);
  }
  if (found) {
    hooks_.slow_rank(found->rank, found->share);
  } else if (slow_ranks_.suspects()) {
    looks_.look_now();
  }
}

TimelinePlan::Look TimingService::look_at_steps() {
  TimelinePlan::Look out{.now = parts_.loop.now(), .wall_ns = base::wall_ns()};
  const auto timed = collector_.pids();
  for (const TrackedProcess* p : parts_.table.living_ranks()) {
    if (std::find(timed.begin(), timed.end(), p->record.pid) == timed.end()) {
      continue;
    }
    const RankProgress progress = hooks_.progress(p->record.pid);
    out.slowest = out.ranks == 0 ? progress.steps : std::min(out.slowest, progress.steps);
    out.fastest = std::max(out.fastest, progress.steps);
    out.step_s = std::max(out.step_s, progress.step_s);
    ++out.ranks;
  }
  return out;
}

std::set<base::Rank> TimingService::timed_ranks() const {
  std::set<base::Rank> out;
  for (const base::Pid pid : collector_.pids()) {
    if (const TrackedProcess* p = parts_.table.find(pid);
        p != nullptr && p->record.role == model::ProcessRole::rank) {
      out.insert(p->record.rank);
    }
  }
  return out;
}

NodeMetrics TimingService::node_metrics(WhichRanks which) {
  const DumpActivity dumps = hooks_.dumps();
  NodeMetrics node{.version = XPURUN_VERSION,
                   .host = host_,
                   .job = environment_or({"ENV_ARGO_WORKFLOW_NAME", "SLURM_JOB_NAME", "SLURM_JOB_ID"}),
                   .pod = environment_or({"POD_NAME"}),
                   .ip = environment_or({"POD_IP"}),
                   .dumping = dumps.dumping,
                   .last_dump_s = dumps.last_s,
                   .shapes = parts_.options.shape_metrics,
                   .peaks = parts_.options.peaks,
                   .slow_events = hooks_.slow_events(),
                   .mismatches = hooks_.mismatches(),
                   .lost_rank_s = hooks_.lost_rank_s(),
                   .gpus = hooks_.gpus(),
                   .machine = hooks_.machine(),
                   .culprits = hooks_.culprits(),
                   .ranks = {}};
  std::map<base::Rank, RankMetrics> ranks;
  const auto add = [&](const TrackedProcess& p) {
    const RankProgress progress = hooks_.progress(p.record.pid);
    ranks[p.record.rank] = {
        .rank = p.record.rank,
        .local_rank = p.record.local_rank,
        .hung = progress.hung,
        .still_s = progress.still_s,
        .steps = progress.steps,
        .step_s = progress.step_s,
        .collections = python_[p.record.rank].collections,
        .batches = python_[p.record.rank].batches,
        .lateness = lateness_.of(p.record.rank),
        .cpu = progress.cpu,
        .memory = progress.memory,
        .gpu = progress.gpu,
        .events_unwritten = event_files_.failed(p.record.rank),
        .timing = collector_.read({p.record.pid, p.record.rank, p.record.local_rank, p.alive})};
  };
  if (which == WhichRanks::all) {
    for (const base::Pid pid : collector_.pids()) {
      const TrackedProcess* p = parts_.table.find(pid);
      if (p != nullptr && p->record.role == model::ProcessRole::rank) {
        add(*p);
      }
    }
  }
  for (const TrackedProcess* p : parts_.table.living_ranks()) {
    add(*p);
  }
  for (auto& [rank, metrics] : ranks) {
    node.ranks.push_back(metrics);
  }
  return node;
}

void TimingService::save(const std::string& directory) {
  event_files_.flush_all();
  if (!collector_.empty()) {
    parts_.storage.replace(directory + "/timing.json", timing_json(timing_of_ranks(), parts_.loop.now()));
  }
}

model::CollectiveFacts TimingService::calls() {
  return collective_facts(timing_of_ranks(), parts_.loop.now());
}

std::vector<RankTiming> TimingService::timing_of_ranks() {
  std::vector<RankTiming> ranks;
  for (const base::Pid pid : collector_.pids()) {
    const TrackedProcess* p = parts_.table.find(pid);
    if (p != nullptr && p->record.role == model::ProcessRole::rank) {
      ranks.push_back(*collector_.read({pid, p->record.rank, p->record.local_rank, p->alive}));
    }
  }
  return ranks;
}

// metrics.prom is what a scrape at the very end would have given, with the ranks that have ended.
void TimingService::finish() {
  constexpr std::string_view kEnd = "end of the run";
  drain_timer_.stop();
  looks_.stop();
  timelines_.finish(!collector_.empty());
  if (collector_.empty()) {
    trace_.end(kEnd);
    return;
  }
  // Drained before the trace ends, so that the last events reach the trace.
  collector_.drain(parts_.loop.now());
  trace_.end(kEnd);
  event_files_.flush_all();
  parts_.storage.replace(dir_.file("timing.json"), timing_json(timing_of_ranks(), parts_.loop.now()));
  parts_.storage.replace(dir_.file("metrics.prom"),
                         expose(node_metrics(WhichRanks::all), MetricsFormat::prometheus));
}

}  // namespace xpurun::launcher
