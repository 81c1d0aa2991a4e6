// KernelWait: the system call that a thread sleeps in, and what the call says about whom the thread waits
// for. Read from /proc and, for poll() and select(), from the process's memory. Stops nothing, follows no
// link to a file: a stat() on a stalled file system would block the supervisor.
#pragma once

#include "common/base/os/procfs.h"

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

namespace xpurun::launcher {

enum class KernelWaitKind {
  none,       // runs, or nothing could be read
  restarted,  // goes on with an interrupted call; which one is not told
  child,      // wait4(), waitid()
  lock,       // futex(), semop()
  pipes,      // read, poll or select of pipes, sockets of a pair included as far as they are pipes
  input,      // read of descriptor 0
  accept,
  events,  // epoll
  sleep,
  signal,
  other,  // a socket, a file, anything else
};

struct KernelWait {
  KernelWaitKind kind = KernelWaitKind::none;
  base::Pid child = 0;          // child: the process waited for; 0: any
  std::set<std::string> pipes;  // pipes, input: "pipe:[123]", as /proc/PID/fd names them
};

KernelWait kernel_wait(const base::ProcFs& proc, base::Pid pid);

// What /proc/PID/syscall says; exposed for tests. Descriptors of poll() and select() are not looked at.
struct SystemCall {
  int64_t number = -1;  // -1: in none
  uint64_t arguments[6] = {};
};
SystemCall parse_system_call(std::string_view text);

// Whether the process has one of these pipes open.
bool holds_pipe(const base::ProcFs& proc, base::Pid pid, const std::set<std::string>& pipes);

}  // namespace xpurun::launcher
