#include "stackdump/ptrace/access.h"

#include "common/base/os/io.h"
#include "common/base/os/procfs.h"
#include "common/base/strings.h"
#include "common/base/tr.h"

#include <fmt/format.h>

#include <cerrno>
#include <unistd.h>

namespace xpurun::stackdump {

namespace {

int64_t yama_scope() {
  const auto text = base::read_file("/proc/sys/kernel/yama/ptrace_scope", 64);
  return text ? base::parse_int(base::trim(*text)).value_or(0) : 0;
}

base::Error no_process(base::Pid pid, std::string cause) {
  return {.what = base::cli_text("cannot dump process {}", pid),
          .sys_errno = ESRCH,
          .id = "E-NO-PROCESS",
          .cause = std::move(cause),
          .hint = "ps -e -o pid,stat,args"};
}

}  // namespace

base::Status check_alive(base::Pid pid) {
  const base::ProcFs proc;
  const auto stat = proc.stat(pid);
  if (pid <= 0 || !stat) {
    return base::fail(no_process(pid, base::cli_text("no such process in this PID namespace")));
  }
  // A thread group leader that called pthread_exit also shows as a zombie, but the process lives on in its
  // other threads.
  if ((stat->state == 'Z' && stat->num_threads <= 1) || stat->state == 'X') {
    return base::fail(
        no_process(pid, base::cli_text("it has exited and waits for its parent to collect it (zombie)")));
  }
  const base::Pid image = living_thread(pid);
  // Only root is sure: without privilege, these reads also fail for processes of other users.
  if (proc.exe(image).empty() && proc.text(image, "maps").empty() && proc.cmdline(image).empty() &&
      ::geteuid() == 0) {
    return base::fail(
        no_process(pid, base::cli_text("it has no memory of its own (kernel thread or exiting)")));
  }
  return {};
}

base::Pid living_thread(base::Pid pid) {
  const base::ProcFs proc;
  const auto gone = [&](base::Tid tid) {
    const auto stat = proc.thread_stat(pid, tid);
    return !stat || stat->state == 'Z' || stat->state == 'X';
  };
  if (gone(pid)) {
    for (const base::Tid tid : proc.threads(pid)) {
      if (!gone(tid)) {
        return tid;
      }
    }
  }
  return pid;
}

base::Pid tracer_of(base::Pid pid) {
  const auto status = base::ProcFs().status(pid);
  return status ? status->tracer_pid : 0;
}

base::Error explain_refusal(base::Pid pid, int err) {
  const base::ProcFs proc;
  const auto status = proc.status(pid);
  if (err == ESRCH || !status) {
    return no_process(pid, base::cli_text("it exited while being dumped"));
  }
  base::Error e{
      .what = base::cli_text("cannot stop process {}", pid), .sys_errno = err, .id = "E-PTRACE-PERM"};
  if (status->tracer_pid != 0) {
    const auto tracer = proc.stat(status->tracer_pid);
    e.id = "E-PTRACE-TRACED";
    e.cause = base::cli_text("process {} ({}) already traces it", status->tracer_pid,
                             tracer ? base::sanitize(tracer->comm) : "unknown");
    e.hint = base::cli_text("detach that debugger or profiler first");
  } else if (::geteuid() != 0 && status->uid != ::getuid()) {
    e.cause = base::cli_text("it belongs to user {}, xpurun runs as user {}", status->uid, ::getuid());
    e.hint = base::cli_text("run as that user or as root");
  } else if (yama_scope() >= 1 && ::geteuid() != 0) {
    e.id = "E-PTRACE-YAMA";
    e.cause = base::cli_text(
        "kernel.yama.ptrace_scope is {}: only ancestors may trace it, and xpurun is not one", yama_scope());
    e.hint = yama_scope() == 1
                 ? base::cli_text("start the job under xpurun, or: sudo sysctl kernel.yama.ptrace_scope=0")
                 : std::string("sudo sysctl kernel.yama.ptrace_scope=1");
  } else {
    e.cause =
        base::cli_text("the container or a security module forbids ptrace, or the program is not dumpable");
    e.hint = "docker run --cap-add=SYS_PTRACE";
  }
  return e;
}

}  // namespace xpurun::stackdump
