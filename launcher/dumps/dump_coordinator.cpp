#include "launcher/dumps/dump_coordinator.h"

#include "common/base/output/log.h"
#include "common/model/documents/document_text.h"
#include "launcher/dumps/gpu_question.h"
#include "launcher/spawn/install_paths.h"
#include "report/diagnosis/collectives/analysis.h"

#include <algorithm>
#include <utility>

namespace xpurun::launcher {

namespace {

// A dump this recent, in seconds, also serves a crash that follows it: the stacks would be the same.
constexpr double kFreshS = 2;
// Time limit in seconds for creating a dump's directory: a crashed rank is held in the meantime.
constexpr double kDirectoryS = 1;
// Time limit in seconds for the files of a dump with a waiting requester.
constexpr double kReplyS = 2;
constexpr double kShortestStillness = 1;  // seconds

}  // namespace

DumpCoordinator::DumpCoordinator(Parts parts, Helpers helpers, Hooks hooks)
    : DumpCoordinator(parts, std::move(helpers), std::move(hooks),
                      {.program = [] { return stackdump_program(); },
                       .make = [&loop = parts.loop](DumpPlan plan, DumpJob::HelperStarted started,
                                                    DumpJob::Done done) -> std::unique_ptr<StackDump> {
                         return std::make_unique<DumpJob>(loop, std::move(plan), std::move(started),
                                                          std::move(done));
                       }}) {}

DumpCoordinator::DumpCoordinator(Parts parts, Helpers helpers, Hooks hooks, Backend backend)
    : parts_(parts), helpers_(std::move(helpers)), hooks_(std::move(hooks)), backend_(std::move(backend)) {}

bool DumpCoordinator::dumped_within(double seconds) const {
  return dump_ != nullptr || !waiting_.empty() ||
         (ended_ != 0 && parts_.loop.now() - ended_ < base::s_to_ns(seconds));
}

void DumpCoordinator::request(DumpRequest request) {
  waiting_.push_back(std::move(request));
  if (dump_ == nullptr) {
    start();
  }
}

void DumpCoordinator::request_or_share(DumpRequest wanted, double seconds) {
  if (dump_ == nullptr && !dumped_within(seconds)) {
    request(std::move(wanted));
    return;
  }
  served_.push_back(std::move(wanted));
  if (dump_ == nullptr) {
    reply_to_served();
  }
}

// A dump from before a crash does not show where the process crashed. Only SIGTERM, which can arrive at any
// place, and the later crashes of a cascade need no dump of their own.
bool DumpCoordinator::is_fresh_for(model::DumpReason why) const {
  return dump_ == nullptr && dumped_within(kFreshS) &&
         (why != model::DumpReason::crash || manifest_.why == model::DumpReason::crash);
}

// A process that crashes during a dump is held for the next dump: its stack may have been taken before.
std::optional<std::string> DumpCoordinator::request_for_crash(const CrashedProcess& crashed,
                                                              DumpRequest wanted) {
  if (is_fresh_for(wanted.why)) {
    crashed_.erase(crashed.pid);
    return dir_;
  }
  const int last = static_cast<int>(parts_.journal.manifest().dumps.size());
  crashed_[crashed.pid] = {.process = crashed, .dump = last + 1};
  request(std::move(wanted));
  return std::nullopt;
}

std::vector<DumpTarget> DumpCoordinator::targets() const {
  std::vector<DumpTarget> targets;
  if (without_stacks_ && manifest_.why == model::DumpReason::hang) {
    return targets;
  }
  for (const TrackedProcess* p : parts_.table.living()) {
    const model::ProcessRecord& r = p->record;
    if (!model::takes_part(r.role)) {
      continue;
    }
    DumpTarget t{.pid = r.pid, .rank = r.rank, .local_rank = r.local_rank, .role = r.role};
    if (const auto crash = crashed_.find(r.pid); crash != crashed_.end()) {
      t.crash_tid = crash->second.process.tid;
      t.crash_ucontext = crash->second.process.ucontext;
    }
    targets.push_back(t);
  }
  // Ranks first, so that the pauses of the ranks are as close together as possible.
  std::stable_partition(targets.begin(), targets.end(),
                        [](const DumpTarget& t) { return t.role == model::ProcessRole::rank; });
  return targets;
}

namespace {

// A loop that tries again every few seconds is worth a wait that is short beside the stall.
int64_t loop_limit_ms(double hang_timeout_s) {
  constexpr double kShortestS = 1.2;
  constexpr double kLongestS = 5.5;
  return static_cast<int64_t>(1000 * std::clamp(hang_timeout_s / 20, kShortestS, kLongestS));
}

}  // namespace

DumpPlan DumpCoordinator::plan(const std::string& directory) {
  const auto program = backend_.program();
  if (!program) {
    base::log_warn("no stack dump: {}", base::to_line(program.error()));
  }
  DumpPlan plan{.program = program.value_or(""),
                .directory = directory,
                .host = helpers_.host,
                .targets = program ? targets() : std::vector<DumpTarget>(),
                .pause_limit_s = parts_.options.dump_deadline_s,
                .signal_mask = helpers_.signal_mask,
                .stderr_fd = helpers_.stderr_fd,
                .keep_snapshots = true};
  if (manifest_.why == model::DumpReason::hang) {
    plan.helper_options.emplace_back("--loops");
    plan.helper_options.push_back(
        fmt::format("--loop-limit-ms={}", loop_limit_ms(parts_.options.hang_timeout_s)));
  }
  if (manifest_.why == model::DumpReason::hang && ask_gpus(plan.targets)) {
    plan.deadline_s = kDumpWithDebuggersS;
    plan.stacks_written = [this](const StackDumpOutcome& outcome) { stacks_written(outcome); };
  }
  return plan;
}

// Whether cuda-gdb may be asked for any of the targets.
bool DumpCoordinator::ask_gpus(std::vector<DumpTarget>& targets) const {
  const auto fault = report::find_call_fault(calls_);
  const size_t gpus = gpus_of_host();
  const bool crowded = gpus > 0 && parts_.table.living_ranks().size() > gpus;
  const auto users = hooks_.gpu_processes ? hooks_.gpu_processes() : std::vector<std::vector<base::Pid>>();
  for (DumpTarget& target : targets) {
    target.gpu_stacks =
        gpu_question(parts_.options.gpu_stacks, fault, target.rank, crowded || shares_gpu(users, target.pid));
  }
  return std::any_of(targets.begin(), targets.end(),
                     [](const DumpTarget& target) { return target.gpu_stacks != model::GpuStacks::never; });
}

// What counts as still in this dump: the hang timeout, or less if the stall was raised earlier for who cannot
// wait.
double DumpCoordinator::stillness_s(const std::vector<DumpRequest>& requests) {
  double out = parts_.options.hang_timeout_s;
  for (const DumpRequest& request : requests) {
    const model::Stall* stall = request.stall != 0 ? parts_.journal.stall(request.stall) : nullptr;
    if (stall != nullptr && stall->since_s >= 0) {
      out = std::min(out, std::max(stall->at_s - stall->since_s, kShortestStillness));
    }
  }
  return out;
}

void DumpCoordinator::start() {
  // The latest forks and exec calls of the job must be among the targets.
  hooks_.discover();
  started_ = parts_.loop.now();
  served_ = take_waiting();
  model::RunManifest& run = parts_.journal.manifest();
  const int n = static_cast<int>(run.dumps.size()) + 1;
  const model::DumpReason why = served_.front().why;
  const bool at_once = parts_.options.busy_timeouts == 1;
  const bool escalated =
      std::any_of(served_.begin(), served_.end(), [](const DumpRequest& r) { return r.escalated; });
  dir_ = model::RunDir::dump_name(n, why);
  manifest_ = {.n = n,
               .why = why,
               .host = helpers_.host,
               .wall_ns = base::wall_ns(),
               .at_s = parts_.journal.elapsed_s(),
               .hang_timeout_s = stillness_s(served_),
               .escalated = why == model::DumpReason::hang && (at_once || escalated),
               .idle_counts = parts_.options.hang_idle,
               .trigger_rank = served_.front().trigger,
               .ranks = hooks_.observations()};
  const std::string directory = parts_.journal.dir().file(dir_);
  run.dumps.push_back({.n = n, .why = why, .dir = dir_, .at_s = manifest_.at_s});
  possible_.reset();
  begun_ = false;
  parts_.storage.make_dirs(directory, [this, n](const base::Status& made) {
    if (!made) {
      base::log_warn("no stack dump: {}", base::to_line(made.error()));
    }
    begin(n, made.has_value());
  });
  calls_ = hooks_.save_calls(directory);
  dump_ = backend_.make(
      plan(directory), [this](base::Pid pid) { parts_.table.ignore(pid); },
      // Deferred to the event loop: the dump must not be destroyed inside its own handler.
      [this](const StackDumpOutcome& outcome) { parts_.loop.after(0, [this, outcome] { done(outcome); }); });
  patience_.after(kDirectoryS, [this, n] {
    base::log_warn("no stack dump: the file system of {} does not answer", parts_.journal.dir().path());
    begin(n, false);
  });
  begin_if_ready();  // the storage may have replied at once
}

// The directory of dump `n` was created, or the dump is impossible. Only the first call counts.
void DumpCoordinator::begin(int n, bool possible) {
  if (manifest_.n == n && !possible_) {
    possible_ = possible;
    begin_if_ready();
  }
}

void DumpCoordinator::begin_if_ready() {
  if (dump_ == nullptr || !possible_ || begun_) {
    return;
  }
  begun_ = true;
  patience_.stop();
  if (*possible_) {
    dump_->start();
    if (hooks_.begun) {
      hooks_.begun(manifest_, parts_.journal.dir().file(dir_));
    }
  } else {
    parts_.loop.after(0, [this] { done({}); });
  }
}

// A dump belongs to one stall, which is judged by it.
std::vector<DumpRequest> DumpCoordinator::take_waiting() {
  std::vector<DumpRequest> out;
  std::vector<DumpRequest> later;
  int stall = 0;
  for (DumpRequest& request : waiting_) {
    const bool other = request.stall != 0 && stall != 0 && request.stall != stall;
    stall = stall == 0 ? request.stall : stall;
    (other ? later : out).push_back(std::move(request));
  }
  waiting_ = std::move(later);
  return out;
}

void DumpCoordinator::release_crashed() {
  // Nobody will take the next dump, so processes that are held for it are released too.
  const bool last = waiting_.empty() || !hooks_.may_go_on();
  std::erase_if(crashed_, [&](const auto& held) {
    if (held.second.dump > manifest_.n && !last) {
      return false;
    }
    if (model::CrashNotice* crash = parts_.journal.find_crash(held.first)) {
      crash->dump = dir_;
    }
    hooks_.release(held.first);
    return true;
  });
}

bool DumpCoordinator::assign_to_stall() {
  const auto request = std::find_if(served_.begin(), served_.end(),
                                    [](const DumpRequest& r) { return r.why == model::DumpReason::hang; });
  if (request == served_.end()) {
    return false;
  }
  model::Stall* stall =
      request->stall != 0 ? parts_.journal.stall(request->stall) : parts_.journal.open_stall();
  if (stall == nullptr || stall->cleared_s >= 0) {
    return false;
  }
  stall->dump = dir_;
  return true;
}

void DumpCoordinator::remove_old_stalls() {
  if (manifest_.why == model::DumpReason::hang) {
    of_stalls_.push_back(dir_);
  }
  if (of_stalls_.size() <= kMostStallDumps) {
    return;
  }
  const auto& stalls = std::as_const(parts_.journal).manifest().stalls;
  const auto old = std::find_if(of_stalls_.begin(), of_stalls_.end(), [&](const std::string& dir) {
    return std::none_of(stalls.begin(), stalls.end(),
                        [&](const model::Stall& s) { return s.cleared_s < 0 && s.dump == dir; });
  });
  if (old != of_stalls_.end()) {
    base::log_info("{} is removed: the last {} dumps of stalls are kept", *old, kMostStallDumps);
    parts_.storage.remove_tree(parts_.journal.dir().file(*old));
    of_stalls_.erase(old);
  }
}

// The requester reads the files at once, so they must be on disk.
void DumpCoordinator::reply_to_served() {
  const size_t processes = manifest_.processes.size();
  parts_.storage.when_written(kReplyS, [dir = dir_, processes, served = std::exchange(served_, {})](Written) {
    for (const DumpRequest& request : served) {
      if (request.reply) {
        request.reply(dir, processes);
      }
    }
  });
}

void DumpCoordinator::record(const StackDumpOutcome& outcome) {
  manifest_.processes = outcome.processes;
  manifest_.spread_ns = outcome.spread_ns;
  known_.keep(dir_, manifest_, calls_);
  write_manifest(dir_, manifest_);
}

// A verdict does not need the GPU's frames, so it does not wait for the debugger.
void DumpCoordinator::stacks_written(const StackDumpOutcome& outcome) {
  record(outcome);
  if (assign_to_stall()) {
    parts_.journal.save_now();
    hooks_.stacks_written();
  }
}

void DumpCoordinator::done(const StackDumpOutcome& outcome) {
  if (dump_ == nullptr) {
    // The outcome is deferred, and the dump may have been given up meanwhile.
    return;
  }
  dump_.reset();
  ended_ = parts_.loop.now();
  last_duration_s_ = base::ns_to_s(ended_ - started_);
  record(outcome);
  release_crashed();
  const bool for_stall = assign_to_stall();
  remove_old_stalls();
  parts_.journal.save_now();
  reply_to_served();
  hooks_.dumped(ended_ - started_, for_stall);
  if (!waiting_.empty() && hooks_.may_go_on()) {
    start();
  } else {
    hooks_.idle();
  }
}

bool DumpCoordinator::look_again(const std::string& dir, bool escalated) {
  model::DumpManifest* manifest = known_.find(dir);
  if (manifest == nullptr || (dump_ != nullptr && dir == dir_)) {
    return false;
  }
  manifest->escalated |= escalated;
  // The stacks are from the first alarm; the observations and their time are current.
  manifest->at_s = parts_.journal.elapsed_s();
  manifest->ranks = hooks_.observations();
  write_manifest(dir, *manifest);
  return true;
}

void DumpCoordinator::write_manifest(const std::string& dir, const model::DumpManifest& manifest) {
  parts_.storage.replace(parts_.journal.dir().file(dir + "/dump.json"), model::document_text(manifest, 1));
}

void DumpCoordinator::give_up(const std::string& why) {
  if (dump_) {
    dump_->give_up(why);
  }
}

bool DumpCoordinator::helper_ended(base::Pid pid, base::WaitStatus status) {
  return dump_ && dump_->helper_ended(pid, status);
}

}  // namespace xpurun::launcher
