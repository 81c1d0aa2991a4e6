#include "launcher/supervise/measurement.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/model/documents/document_text.h"
#include "common/model/run_dir.h"
#include "launcher/speed/gpu_starts.h"
#include "launcher/supervise/reporting/rank_progress.h"
#include "report/diagnosis/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <unistd.h>
#include <utility>

namespace xpurun::launcher {

namespace {

// Mean number of bytes between two samples of the host memory; allocations of twice as many are all samples.
constexpr uint32_t kHeapInterval = 256 * 1024;

// Seconds that the ranks of this node have lost together: all of a stall, and of slower steps what they take
// longer. `now_s`: since the start of the run.
double lost_rank_s(const model::RunManifest& run, double now_s) {
  std::set<base::Rank> ranks;
  for (const model::ProcessRecord& p : run.processes) {
    if (p.role == model::ProcessRole::rank && p.rank != base::kNoRank) {
      ranks.insert(p.rank);
    }
  }
  double lost_s = 0;
  for (const model::Stall& s : run.stalls) {
    lost_s += std::max(0.0, (s.cleared_s < 0 ? now_s : s.cleared_s) - (s.since_s < 0 ? s.at_s : s.since_s));
  }
  for (const model::Slowdown& s : run.slowdowns) {
    const double slow_s = std::max(0.0, (s.cleared_s < 0 ? now_s : s.cleared_s) - s.at_s);
    lost_s += s.share > 0 ? slow_s * s.share / (1 + s.share) : 0;
  }
  return lost_s * static_cast<double>(ranks.size());
}

}  // namespace

Measurement::Measurement(const Parts& p, const Setup& setup, Hooks hooks)
    : parts_(p),
      hooks_(std::move(hooks)),
      places_({.loop = p.loop,
               .signal_mask = setup.signal_mask,
               .stderr_fd = setup.stderr_fd,
               .started = helper_started()}),
      python_({p.loop, p.table, p.journal, p.storage, p.options, mpi_, places_}, setup.host, python_hooks()),
      speed_(p.loop, p.journal, p.options, speed_hooks()),
      heap_({p.loop, p.table, places_}, heap_hooks(), p.options.samples_memory ? kHeapInterval : 0),
      memory_({p.table, p.journal, p.options}, memory_hooks()),
      timing_({p.loop, p.storage, p.table, p.options}, p.journal.dir(), setup.host, timing_hooks()),
      activity_({p.loop, p.storage, p.table, timing_.collector()}, setup.host,
                {.step_s = [this](base::MonoNs from,
                                  base::MonoNs until) { return steps().median_step_s(from, until); }}),
      captures_({p.loop, p.storage, timing_.trace(), activity_}, setup.directory, setup.signal_mask,
                setup.stderr_fd,
                {.save_run = [this] { parts_.journal.save_now(); },
                 .uses_gpu = [this] { return steps().uses_gpu(); },
                 .started = helper_started(),
                 .captured = [this] { speed_.captured(); }}),
      gpu_watch_({.loop = p.loop,
                  .storage = p.storage,
                  .file = p.journal.dir().file(std::string(model::kGpuHealthFile)),
                  .signal_mask = setup.signal_mask,
                  .stderr_fd = setup.stderr_fd,
                  .started = helper_started(),
                  .name_of_stranger = [this](base::Pid pid) { return name_of_stranger(pid); }}),
      machine_({.loop = p.loop,
                .storage = p.storage,
                .run_dir = setup.directory,
                .signal_mask = setup.signal_mask,
                .stderr_fd = setup.stderr_fd,
                .started = helper_started(),
                .ranks = [this] { return watched_ranks(); }}),
      calls_({p.table, p.storage},
             {.nccl = [this] { return timing_.calls(); },
              .add_torch = [this](model::CollectiveFacts& calls) { python_.add_calls(calls); },
              .add_mpi = [this](model::CollectiveFacts& calls) { add_mpi_calls(calls); },
              .steps = [this](base::Rank rank) { return steps().rank(rank).steps; }}),
      mismatches_(p.loop, p.options.language,
                  {.calls = [this] { return calls_.all(); },
                   .keep =
                       [this](const model::CollectiveFacts& calls) {
                         parts_.storage.replace(parts_.journal.dir().file(model::kMismatchFile),
                                                model::document_text(calls, 1));
                       },
                   .report =
                       [this](const std::string& sentence, const model::RankSet& ranks) {
                         parts_.notifier.events().mismatched(sentence, ranks);
                       },
                   .say = hooks_.say}),
      metrics_(p.loop, [this] { return timing_.node_metrics(TimingService::WhichRanks::living); }) {
  mismatches_.start();
  python_.on_load([this](base::Pid pid, const model::LoadSample& load) { memory_.add(pid, load); });
  python_.looks().on_look([this](const model::MemoryLook& look) { memory_.looked(look); });
  machine_.start();
  python_.on_spans([this](const auto& who, auto spans) {
    speed_.add(who.rank, who.process, spans, who.names);
    timing_.spans_arrived(who.rank, spans, who.names);
  });
}

void Measurement::add_helpers(HelperList& helpers) {
  helpers.add_busy(captures_);
  helpers.add_known(gpu_watch_);
  helpers.add_known(machine_);
  helpers.add_known(places_);
}

model::CollectiveFacts Measurement::save(const std::string& directory) {
  machine_.look();
  gpu_watch_.look();
  timing_.save(directory);
  python_.save_spans();
  return calls_.save(fmt::format("{}/{}", directory, model::kCollectivesFile));
}

std::string Measurement::name_of_stranger(base::Pid pid) const {
  if (parts_.table.find(pid) != nullptr) {
    return {};
  }
  const auto name = base::read_file(fmt::format("/proc/{}/comm", pid));
  return fmt::format("{} (pid {})", name ? base::sanitize(base::trim(*name)) : std::string("a process"), pid);
}

std::vector<WatchedRank> Measurement::watched_ranks() const {
  std::vector<WatchedRank> out;
  for (const TrackedProcess* p : parts_.table.living()) {
    if (p->record.role == model::ProcessRole::rank && p->record.rank >= 0) {
      out.push_back({.rank = p->record.rank, .local_rank = p->record.local_rank, .pid = p->record.pid});
    }
  }
  return out;
}

void Measurement::add_mpi_calls(model::CollectiveFacts& facts) {
  for (const base::Pid pid : mpi_.pids()) {
    const TrackedProcess* p = parts_.table.find(pid);
    if (p != nullptr && p->record.role == model::ProcessRole::rank) {
      const WorldsOfRank worlds{.all = parts_.table.mpi_worlds(), .own = p->mpi_world, .ended = !p->alive};
      mpi_.add_to(facts, pid, p->record.rank, parts_.loop.now(), worlds, [this, pid](uint64_t address) {
        return model::location_of(places_.find(pid, address).value_or(""));
      });
    }
  }
}

model::CollectiveFacts Measurement::python_calls() const {
  model::CollectiveFacts calls;
  python_.add_calls(calls);
  return calls;
}

void Measurement::finish_files() {
  mismatches_.finish();
  timing_.finish();
  gpu_watch_.finish();
  machine_.finish();
  python_.save_spans();
  places_.settle();
  python_.save_spans();
  heap_.finish();
}

std::function<void(base::Pid)> Measurement::helper_started() {
  return [this](base::Pid pid) { parts_.table.ignore(pid); };
}

PythonReports::Hooks Measurement::python_hooks() {
  return {.look_at = [this](base::Pid pid) { parts_.watcher.look_at(pid); },
          .recorded = [this](const model::PythonException& e) { parts_.notifier.events().raised(e); },
          .ended = hooks_.rank_ended,
          .worker_failed = [this](base::Rank rank) { parts_.watcher.helper_failed(rank); },
          .spans_wanted = [this] { return timing_.level() != wire::Level::off; }};
}

SlowdownHandler::Hooks Measurement::speed_hooks() {
  return {.slower = [this](const std::string& sentence,
                           const model::RankSet& ranks) { parts_.notifier.events().slower(sentence, ranks); },
          .say = hooks_.say,
          .changed = [this] { timing_.look_now(); },
          .longer = [this] { timing_.steps_take_longer(); },
          .recorded = [this] { return timing_.level() != wire::Level::off && !parts_.job.is_ending(); },
          .lives =
              [this](base::Rank rank) {
                const std::vector<WatchedRank> living = watched_ranks();
                return std::any_of(living.begin(), living.end(),
                                   [&](const WatchedRank& r) { return r.rank == rank; });
              },
          .capture = std::bind_front(&CaptureRunner::capture_by_itself, &captures_),
          .look_for_stall = hooks_.look_for_stall,
          .judge = hooks_.judge_steps,
          .was_chance = [this] { timing_.forget_slow_rank(); }};
}

MemoryWatch::Hooks Measurement::memory_hooks() {
  return {
      .steps = [this](base::Rank rank) { return steps().rank(rank).steps; },
      .room = [] { return read_memory_room(HostFiles(), ::getpid()); },
      .grows = [this](
                   const std::string& sentence,
                   const model::RankSet& ranks) { parts_.notifier.events().memory_grows(sentence, ranks); },
      .say = hooks_.say,
      .examine =
          [this](base::Pid pid, bool on_host) {
            constexpr uint32_t kSteps = 8;
            heap_.look(pid);
            python_.looks().ask(pid, {.reason = wire::kMemoryGrowth, .steps = kSteps, .objects = on_host});
          }};
}

HeapLooks::Hooks Measurement::heap_hooks() {
  return {.steps = [this](base::Rank rank) { return steps().rank(rank).steps; },
          .keep = [this](model::MemoryLook look) { python_.looks().keep(std::move(look)); },
          .look_at = [this](base::Pid pid) { parts_.watcher.look_at(pid); }};
}

// Who is to blame at the moment: for a stall, else for slow steps.
std::vector<Culprit> Measurement::culprits() const {
  const model::Stall* stall = std::as_const(parts_.journal).open_stall();
  const bool judged = stall != nullptr && !stall->verdict.ranks.empty();
  const model::RankSet& ranks = judged ? stall->verdict.ranks : speed_.slow_ranks();
  std::vector<Culprit> out;
  for (const base::Rank rank : ranks.ranks()) {
    out.push_back({rank, judged ? stall->verdict.id : std::string(report::kSlowRank)});
  }
  return out;
}

TimingService::Hooks Measurement::timing_hooks() {
  return {.progress =
              [this](base::Pid pid) {
                return rank_progress(
                    {parts_.table, steps(), parts_.options.hang_timeout_s, hooks_.stall_open()}, pid,
                    parts_.watcher.still_s(pid), python_.load(pid));
              },
          .dumps =
              [this] {
                return TimingService::DumpActivity{parts_.dumps.busy(), parts_.dumps.last_duration_s()};
              },
          .unknown_process = [this](base::Pid pid) { parts_.watcher.look_at(pid); },
          .first_gpu_use =
              [this] {
                speed_.watch().gpu_used();
                gpu_watch_.start();
                hooks_.gpu_used();
              },
          .step_s = [this] { return steps().step_s(); },
          .every_call_timed = [this](bool on) { speed_.watch().every_call_timed(on, parts_.loop.now()); },
          .events =
              [this](base::Rank rank, std::span<const wire::Event> events, const wire::Segment& memory) {
                speed_.watch().started(rank, gpu_starts(events, memory));
              },
          .slow_rank = std::bind_front(&SlowdownHandler::found_slow_rank, &speed_),
          .no_longer_slow = std::bind_front(&SlowdownHandler::no_longer_slow, &speed_),
          .slow_events = [this] { return steps().slow_events(); },
          .lost_rank_s =
              [this] {
                const Journal& journal = parts_.journal;
                return lost_rank_s(journal.manifest(), journal.elapsed_s());
              },
          .mismatches = [this] { return mismatches_.found(); },
          .culprits = [this] { return culprits(); },
          .machine =
              [this] {
                model::MachineHistory all = machine_.history();
                add_gpu_facts(all, gpu_watch_.health());
                return all.series;
              },
          .gpus = [this] { return gpu_watch_.throttling(); }};
}

}  // namespace xpurun::launcher
