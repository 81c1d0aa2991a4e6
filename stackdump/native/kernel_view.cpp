#include "stackdump/native/kernel_view.h"

#include "common/base/os/io.h"
#include "common/base/os/procfs.h"
#include "common/base/os/system_call.h"
#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <sys/syscall.h>
#include <unistd.h>

namespace xpurun::stackdump {

bool same_system_call(std::string_view before, std::string_view after) {
  // After a stop, the kernel continues an interrupted wait as restart_syscall: the number changes, although
  // the thread has not left its call. The arguments, stack pointer and pc stay.
  const size_t a = std::min(before.find(' '), before.size());
  const size_t b = std::min(after.find(' '), after.size());
  const auto restarts = [](std::string_view number) {
    return base::parse_int(number) == SYS_restart_syscall;
  };
  const bool same_number = before.substr(0, a) == after.substr(0, b) || restarts(before.substr(0, a)) ||
                           restarts(after.substr(0, b));
  return same_number && before.substr(a) == after.substr(b);
}

KernelView read_kernel_view(base::Pid pid, base::Tid tid, const base::ProcFs& proc) {
  KernelView v;
  if (const auto stat = proc.thread_stat(pid, tid)) {
    v.comm = base::sanitize(stat->comm);
    v.state = stat->state;
    v.cpu_ms = (stat->utime_ticks + stat->stime_ticks) * 1000 / static_cast<uint64_t>(::sysconf(_SC_CLK_TCK));
  }
  v.wchan = proc.text(pid, fmt::format("task/{}/wchan", tid));
  // "0": the thread runs, or this reader may not see kernel addresses.
  if (v.wchan == "0") {
    v.wchan.clear();
  }
  v.syscall_text = proc.text(pid, fmt::format("task/{}/syscall", tid));
  const base::SystemCall call = base::parse_system_call(v.syscall_text);
  v.syscall = base::name_of(call);
  if (const int fd = base::descriptor_of(call); fd >= 0) {
    v.syscall_file = proc.link(pid, fmt::format("fd/{}", fd));
  }
  return v;
}

std::vector<std::string> parse_kernel_stack(std::string_view text) {
  std::vector<std::string> out;
  for (std::string_view line : base::split(text, '\n')) {
    const size_t bracket = line.find("] ");  // "[<0>] futex_wait_queue+0x60/0x90"
    if (bracket == std::string_view::npos) {
      continue;
    }
    const std::string_view frame = base::trim(line.substr(bracket + 2));
    out.emplace_back(frame.substr(0, frame.find('+')));
  }
  return out;
}

std::vector<std::string> kernel_stack(base::Pid pid, base::Tid tid) {
  return parse_kernel_stack(base::ProcFs().text(pid, fmt::format("task/{}/stack", tid)));
}

}  // namespace xpurun::stackdump
