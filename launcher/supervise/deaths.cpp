// Supervisor: who has died, in which order, and the end of the run.
#include "common/base/output/log.h"
#include "launcher/options/exit_status.h"
#include "launcher/supervise/supervisor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {
// Without us the command would lead the session, and its end would bring SIGHUP and SIGCONT to the foreground
// process group (disassociate_ctty in the kernel). Our own end brings them too, but only after the report.
void hang_up_group(const ProcessTable& table) {
  for (const TrackedProcess* p : table.living()) {
    if (p->pidfd && ::getpgid(p->record.pid) == ::getpgrp()) {
      (void)p->pidfd.send_signal(SIGHUP);
      (void)p->pidfd.send_signal(SIGCONT);
    }
  }
}

// After the command's own end: for the last deaths, notices and dumps to come in.
constexpr double kSettleS = 0.05;
// Then nobody waits for a file system that has not answered for so long.
constexpr double kLastPatienceS = 1.5;
}  // namespace

// The only place that waits for children: the command, our helpers, and orphans that a subreaper inherits.
void Supervisor::reap() {
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
      return;
    }
    const base::Pid pid = info.si_pid;
    // What it was can still be asked of the zombie; afterwards the pid is free.
    int raw = 0;
    const bool helper = dump_ != nullptr || reports_.busy() || (relay_ && relay_->pid() == pid);
    if (pid != table_.main() && table_.find(pid) == nullptr && !helper) {
      discover();
    }
    if (::waitpid(pid, &raw, 0) != pid) {
      return;
    }
    const base::WaitStatus status(raw);
    // Whoever it was, the number is free now.
    table_.unignore(pid);
    if ((dump_ && dump_->helper_ended(pid, status)) || reports_.helper_ended(pid, status) ||
        (relay_ && relay_->helper_ended(pid, status))) {
      continue;
    }
    process_died(pid, status);
  }
}

void Supervisor::watch_process(const TrackedProcess& p) {
  base::log_debug("found pid {} ({}), role {}, rank {}", p.record.pid, p.record.comm, name_of(p.record.role),
                  p.record.rank);
  journal_.changed();
  if (!p.pidfd) {
    return;
  }
  const base::Pid pid = p.record.pid;
  const int fd = p.pidfd.fd();
  (void)loop_.add(fd, EPOLLIN, [this, pid, fd](uint32_t) {
    loop_.remove(fd);
    const TrackedProcess* dead = table_.find(pid);
    // A child of ours is reaped, which tells its status; a stranger's is read from the zombie it leaves.
    if (dead == nullptr || !dead->alive) {
      return;
    }
    siginfo_t info{};
    const bool ours = ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
    if (ours) {
      reap();
    } else {
      process_died(pid, std::nullopt);
    }
  });
}

void Supervisor::process_died(base::Pid pid, std::optional<base::WaitStatus> status) {
  if (TrackedProcess* p = table_.find(pid); p != nullptr && p->alive) {
    loop_.remove(p->pidfd.fd());
    const bool readable = !status && p->pidfd;
    const base::WaitStatus end =
        readable ? p->pidfd.wait_status_of_stranger() : status.value_or(base::WaitStatus());
    table_.mark_dead(pid);
    model::ProcessRecord& record = p->record;
    const bool counts = model::takes_part(record.role);
    if (counts || pid == table_.main()) {
      record.death = ledger_.record(pid, journal_.elapsed_s(), end);
      base::log_info("pid {} ({} {}) {}{}{}", pid, name_of(record.role), record.rank, end.text(),
                     record.death.cause_hint.empty() ? "" : ": ", record.death.cause_hint);
    }
    if (const auto watch = watches_.find(pid); watch != watches_.end()) {
      model::RankObservation last = watch->second.observe(base::mono_ns());
      last.alive = false;
      last.wait_status = end;
      gone_[pid] = last;
      watches_.erase(watch);
    }
    crashing_.erase(pid);
    // The first failure of a rank: where were the others? Soon the launcher will end them.
    const bool failure = record.death.happened && !end.succeeded() && !record.death.follower;
    if (record.role == model::ProcessRole::rank && failure && !shutdown_.active() && !dumped_since(3) &&
        pid != table_.main()) {
      wish_dump({.why = model::DumpReason::death, .trigger = record.rank});
    }
    journal_.changed();
  }
  if (pid == table_.main() && status) {
    main_status_ = *status;
    main_reaped_ = true;
    main_ended();
  }
}

void Supervisor::main_ended() {
  if (finishing_) {
    return;
  }
  finishing_ = true;
  if (hung_up_) {
    table_.refresh();
    hang_up_group(table_);
  }
  end_status_line();
  loop_.cancel(tick_timer_);
  last_watch_.start(kLastPatienceS, [this] { give_up_the_disk(); });
  loop_.after(kSettleS, [this] { finish_when_ended(); });
}

// What we are ending may outlive the command: nothing of it may stay behind.
void Supervisor::finish_when_ended() {
  if (shutdown_.active()) {
    table_.refresh();
  }
  if (shutdown_.has_work(base::mono_ns())) {
    loop_.after(kSettleS, [this] { finish_when_ended(); });
    return;
  }
  finish();
}

// The command has ended, and somebody waits for its exit status. Helpers that the file system holds cannot
// even be killed.
void Supervisor::give_up_the_disk() {
  const std::string why = fmt::format("the file system of {} does not answer", journal_.dir().path());
  if (dump_) {
    dump_->give_up(why);
  }
  reports_.give_up(why);
}

void Supervisor::finish() {
  if (dump_) {
    // dump_done() comes back here.
    return;
  }
  if (relay_ && !relay_finished_) {
    // What the ranks have written stands before what we say at the end.
    notices_.release_all();
    relay_->finish([this] {
      relay_finished_ = true;
      finish();
    });
    return;
  }
  if (!finished_) {
    finished_ = true;
    notices_.release_all();
    // Deaths that happened together with the command's: their pidfds may not have been looked at yet.
    reap();
    for (const TrackedProcess* p : table_.living()) {
      if (p->pidfd && !p->pidfd.send_signal(0)) {
        process_died(p->record.pid, std::nullopt);
      }
    }
    model::RunManifest& m = journal_.manifest();
    m.child_status = main_status_;
    m.processes = table_.records();
    m.world_size = table_.world_size();
    if (m.outcome == model::RunOutcome::running) {
      m.outcome = main_status_.signaled() ? model::RunOutcome::signal : model::RunOutcome::exit;
      if (last_interrupt_ != 0 && !main_status_.succeeded()) {
        m.outcome = model::RunOutcome::interrupted;
      }
    }
    m.exit_status = exit_status();
    finish_timing();
    journal_.save_now();
    if (options_.report) {
      reports_.request();
      return;
    }
  }
  if (!reports_.busy()) {
    // After whoever still waits for a file: the answer to a trace or a dump that was asked for.
    storage_.when_written(kLastPatienceS, [this](Written) { loop_.stop(); });
  }
}

int Supervisor::exit_status() const {
  int root_signal = 0;
  double first = std::numeric_limits<double>::infinity();
  for (const model::ProcessRecord& r : table_.records()) {
    const model::Death& d = r.death;
    const bool failed =
        r.role == model::ProcessRole::rank && d.happened && !d.follower && !d.wait_status.succeeded();
    double at_s = d.at_s;
    for (const model::CrashNotice& crash : journal_.manifest().crashes) {
      // A rank that is held for its dump dies later than it crashed.
      at_s = crash.pid == r.pid ? std::min(at_s, crash.at_s) : at_s;
    }
    if (failed && at_s < first) {
      first = at_s;
      root_signal = d.wait_status.signal();
    }
  }
  return launcher::exit_status(
      {.wait_status = main_status_,
       .end = journal_.manifest().outcome == model::RunOutcome::hang ? JobEnd::hang_ended : JobEnd::by_itself,
       .root_cause_signal = table_.multi_process() ? root_signal : 0});
}

}  // namespace xpurun::launcher
