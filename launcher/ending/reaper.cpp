#include "launcher/ending/reaper.h"

#include "common/base/output/log.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>

namespace xpurun::launcher {

namespace {

// How a launcher ends ranks.
bool ends_others(const base::WaitStatus& status) {
  return status.signal() == SIGKILL || status.signal() == SIGTERM;
}

}  // namespace

void Reaper::watch(const TrackedProcess& p) {
  base::log_debug("found pid {} ({}), role {}, rank {}", p.record.pid, p.record.comm, name_of(p.record.role),
                  p.record.rank);
  parts_.journal.changed();
  if (!p.pidfd) {
    return;
  }
  const base::Pid pid = p.record.pid;
  const int fd = p.pidfd.fd();
  // A pidfd is readable from the end of its process on, so the descriptor leaves the loop at the first event.
  (void)parts_.loop.add(fd, EPOLLIN, [this, pid, fd](uint32_t) {
    parts_.loop.remove(fd);
    pidfd_ready(pid, fd);
  });
}

// The end of a child is reaped, which gives its status. The status of any other process is read from its
// zombie.
void Reaper::pidfd_ready(base::Pid pid, int fd) {
  const TrackedProcess* dead = parts_.table.find(pid);
  // By now the pid may belong to another process of the job.
  if (dead == nullptr || !dead->alive || dead->pidfd.fd() != fd) {
    return;
  }
  siginfo_t info{};
  // WNOWAIT: only asks whether the process is a child. reap() then reaps in the kernel's order.
  const bool ours = ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
  if (ours) {
    reap();
  } else {
    process_died(pid, std::nullopt);
  }
}

void Reaper::reap() {
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
      return;
    }
    const base::Pid pid = info.si_pid;
    // Until waitpid(), /proc still describes the zombie and the pid cannot be reused.
    if (pid != parts_.table.main() && parts_.table.find(pid) == nullptr && !hooks_.may_be_helper(pid)) {
      hooks_.unknown_ended();
    }
    int raw = 0;
    if (::waitpid(pid, &raw, 0) != pid) {
      return;
    }
    const base::WaitStatus status(raw);
    parts_.table.unignore(pid);
    if (!hooks_.helper_ended(pid, status)) {
      process_died(pid, status);
    }
  }
}

void Reaper::find_unnoticed_deaths() {
  reap();
  for (const TrackedProcess* p : parts_.table.living()) {
    // Signal 0 fails once the process has ended, even before epoll reports its pidfd.
    if (p->pidfd && !p->pidfd.send_signal(0)) {
      process_died(p->record.pid, std::nullopt);
    }
  }
}

void Reaper::process_died(base::Pid pid, std::optional<base::WaitStatus> status) {
  if (TrackedProcess* p = parts_.table.find(pid); p != nullptr && p->alive) {
    record_death(*p, status);
  }
  if (parts_.table.is_foreign()) {
    if (parts_.table.foreign_job_ended()) {
      const TrackedProcess* command = parts_.table.find(parts_.table.main());
      hooks_.command_ended(command != nullptr ? command->record.death.wait_status : base::WaitStatus());
    }
  } else if (pid == parts_.table.main() && status) {
    hooks_.command_ended(*status);
  }
}

// Deaths that are noticed together have no order. A launcher ends its other ranks after a failure, and reaps
// in the order of the ends: who failed otherwise, or was reaped already, came first.
void Reaper::record_what_came_before(base::Pid killed) {
  for (const TrackedProcess* p : parts_.table.living()) {
    const base::Pid pid = p->record.pid;
    if (pid == killed || p->record.role != model::ProcessRole::rank || !p->pidfd) {
      continue;
    }
    const base::WaitStatus end = p->pidfd.wait_status_of_stranger();
    const bool ended = end.known() || !p->pidfd.send_signal(0);
    if (ended && !end.succeeded() && !ends_others(end)) {
      process_died(pid, std::nullopt);
    }
  }
}

void Reaper::record_death(TrackedProcess& p, std::optional<base::WaitStatus> status) {
  parts_.loop.remove(p.pidfd.fd());
  const bool readable = !status && p.pidfd;
  const base::WaitStatus end =
      readable ? p.pidfd.wait_status_of_stranger() : status.value_or(base::WaitStatus());
  if (ends_others(end) && !ledger_.failure_seen()) {
    record_what_came_before(p.record.pid);
  }
  p.pidfd = Pidfd();
  model::ProcessRecord& record = p.record;
  parts_.table.mark_dead(record.pid);
  parts_.table.note_error_stream(record.pid);
  if (model::takes_part(record.role) || record.pid == parts_.table.main()) {
    record.death = ledger_.record(record.pid, parts_.journal.elapsed_s(), end);
    base::log_info("pid {} ({} {}) {}{}{}", record.pid, name_of(record.role), record.rank, end.text(),
                   record.death.cause_hint.empty() ? "" : ": ", record.death.cause_hint);
  }
  hooks_.died(p, end, record.death.happened && !end.succeeded() && !record.death.follower);
  parts_.journal.changed();
}

}  // namespace xpurun::launcher
