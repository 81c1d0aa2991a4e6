// The kernel's information about a thread that needs no stop: state, CPU time, the kernel function in which
// the thread sleeps, its system call and, with privilege, its kernel stack.
#pragma once

#include "common/base/ids.h"
#include "common/base/os/procfs.h"
#include "common/model/stack_snapshot.h"
#include "stackdump/ptrace/registers.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::stackdump {

struct KernelView {
  std::string comm;
  char state = '?';
  uint64_t cpu_ms = 0;
  std::string wchan;         // kernel function it sleeps in, or empty
  std::string syscall;       // name or "#number" of its system call, or empty
  std::string syscall_file;  // the file of its descriptor ("pipe:[4711]", a path), for calls that may wait on
                             // one
  std::string syscall_text;  // the raw line, for from_syscall_text()
  std::string target;        // what the call is about, for people: a path, "10.0.0.7:443"
  std::vector<base::Pid> peers;   // that have the other end of a pipe or local socket open
  model::FileSystem file_system;  // that the path in `target` lies on; may be empty
  model::LockHolder lock;         // of the lock that the call waits for; may be empty
};

KernelView read_kernel_view(base::Pid pid, base::Tid tid, const base::ProcFs& proc = base::ProcFs());

// Names of kernel functions, innermost first; empty without the privilege to see them.
std::vector<std::string> kernel_stack(base::Pid pid, base::Tid tid);
std::vector<std::string> parse_kernel_stack(std::string_view text);

// Whether two texts of /proc/PID/syscall show the same system call, still in progress. After a stop the
// kernel continues some calls with a time limit (nanosleep, poll, futex) as restart_syscall; only the number
// changes.
bool same_system_call(std::string_view before, std::string_view after);

}  // namespace xpurun::stackdump
