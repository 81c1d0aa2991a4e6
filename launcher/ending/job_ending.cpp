#include "launcher/ending/job_ending.h"

#include <fmt/format.h>

#include <signal.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

// Seconds after the command's end for the last deaths, notices and dumps to arrive.
constexpr double kSettleS = 0.05;
// After their launcher, ranks take some time to end. Later they count as left. Seconds.
constexpr double kRanksEndS = 1;
// Between TERM and KILL for ranks that have outlived the command: they may save a checkpoint, and a workload
// manager that has ended the job gives xpurun itself about 30 s.
constexpr double kLateGraceS = 25;
// Time limit in seconds for a file system that does not respond.
constexpr double kLastPatienceS = 1.5;

// Without xpurun the command would lead the session, and its end would send SIGHUP and SIGCONT to the
// foreground process group (disassociate_ctty in the kernel). xpurun's own end sends them too, but only after
// the report.
void hang_up_group(const ProcessTable& table) {
  for (const TrackedProcess* p : table.living()) {
    if (::getpgid(p->record.pid) == ::getpgrp()) {
      (void)table.signal(*p, SIGHUP);
      (void)table.signal(*p, SIGCONT);
    }
  }
}

}  // namespace

JobEnding::JobEnding(Parts parts, const std::string& run_dir, Hooks hooks)
    : parts_(parts),
      run_dir_(run_dir),
      hooks_(std::move(hooks)),
      shutdown_(parts.loop, parts.table),
      disk_watch_(parts.loop, parts.storage, run_dir) {}

void JobEnding::terminate(double grace_s) {
  state_.ended_by_us = true;
  shutdown_.terminate(grace_s);
}

void JobEnding::kill_now() {
  state_.ended_by_us = true;
  shutdown_.kill_now();
}

void JobEnding::detach() {
  if (!state_.has_ended()) {
    state_.detached = true;
    command_ended(base::WaitStatus());
  }
}

void JobEnding::command_ended(base::WaitStatus status) {
  if (state_.has_ended()) {
    return;
  }
  state_.command_status = status;
  ended_at_ = parts_.loop.now();
  state_.phase = JobPhase::settling;
  if (hung_up_) {
    parts_.table.refresh();
    hang_up_group(parts_.table);
  }
  hooks_.command_ended();
  // The caller waits for the exit status. A helper that a file system blocks cannot even be killed.
  disk_watch_.start(kLastPatienceS, [this] {
    hooks_.give_up(fmt::format("the file system of {} does not answer", run_dir_));
  });
  parts_.loop.after(kSettleS, [this] { settle_or_wait(); });
}

// Processes that xpurun is ending may outlive the command, but none may stay behind.
void JobEnding::settle_or_wait() {
  if (shutdown_.active()) {
    parts_.table.refresh();
  }
  if (ranks_get_time() || shutdown_.has_work(parts_.loop.now())) {
    parts_.loop.after(kSettleS, [this] { settle_or_wait(); });
    return;
  }
  if (state_.phase == JobPhase::settling) {
    state_.phase = JobPhase::settled;
  }
  proceed();
}

bool JobEnding::ranks_get_time() {
  if (state_.detached || shutdown_.active() || parts_.table.living_ranks().empty()) {
    return false;
  }
  const double since_end_s = base::ns_to_s(parts_.loop.now() - ended_at_);
  const LateRanks late = since_end_s < kRanksEndS ? LateRanks::get_time : hooks_.late_ranks(since_end_s);
  if (late == LateRanks::end) {
    shutdown_.terminate(kLateGraceS);
  }
  return late == LateRanks::get_time;
}

void JobEnding::proceed() {
  if (hooks_.dumping()) {
    return;
  }
  switch (state_.phase) {
    case JobPhase::running:
    case JobPhase::settling:
    case JobPhase::draining:
      break;  // a timer or the relay continues
    case JobPhase::settled:
      // The ranks' last lines must precede the lines that xpurun prints at the end.
      state_.phase = JobPhase::draining;
      hooks_.drain_logs([this] {
        state_.phase = JobPhase::drained;
        proceed();
      });
      break;
    case JobPhase::drained:
      record_and_report();
      break;
    case JobPhase::notifying:
    case JobPhase::finished:
      break;  // programs or the storage continue
    case JobPhase::reporting:
      if (!hooks_.reporting()) {
        // A requester may still wait for the files of a trace or a dump.
        notify_of_the_end(
            [this] { parts_.storage.when_written(kLastPatienceS, [this](Written) { parts_.loop.stop(); }); });
      }
      break;
  }
}

void JobEnding::notify_of_the_end(std::function<void()> then) {
  state_.phase = JobPhase::notifying;
  hooks_.notify_of_end([this, then = std::move(then)] {
    state_.phase = JobPhase::finished;
    then();
  });
}

void JobEnding::record_and_report() {
  state_.phase = JobPhase::reporting;
  hooks_.record();
  if (!hooks_.request_report()) {
    proceed();
  }
}

void JobEnding::report_done() {
  if (state_.phase == JobPhase::reporting && !hooks_.reporting()) {
    hooks_.print_end();
    notify_of_the_end([this] { parts_.loop.stop(); });
  }
}

}  // namespace xpurun::launcher
