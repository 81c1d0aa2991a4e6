#include "launcher/os/pidfd.h"

#include "common/base/clock.h"
#include "common/base/os/procfs.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdint>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

// include/uapi/linux/pidfd.h of Linux 6.15; Debian 12's headers do not have it yet.
struct PidfdInfo {
  uint64_t mask;
  uint64_t cgroupid;
  uint32_t pid;
  uint32_t tgid;
  uint32_t ppid;
  uint32_t ids[8];
  int32_t exit_code;
};
static_assert(sizeof(PidfdInfo) == 64, "PIDFD_INFO_SIZE_VER0");
constexpr uint64_t kPidfdInfoExit = 1u << 3;
constexpr unsigned long kPidfdGetInfo = _IOWR(0xFF, 11, PidfdInfo);

}  // namespace

void reap_soon(base::Pid pid, double seconds) {
  constexpr int kStepMs = 2;
  const base::MonoNs end = base::mono_ns() + base::s_to_ns(seconds);
  while (pid > 0 && ::waitpid(pid, nullptr, WNOHANG) == 0 && base::mono_ns() < end) {
    (void)::poll(nullptr, 0, kStepMs);
  }
}

base::Result<Pidfd> Pidfd::open(base::Pid pid) {
  Pidfd out;
  // glibc has wrappers only from 2.36 on; the bundle must run with 2.28.
  out.fd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  out.pid_ = pid;
  if (!out.fd_) {
    return base::fail_errno(fmt::format("cannot open process {}", pid));
  }
  return out;
}

base::Status Pidfd::send_signal(int signal) const {
  if (::syscall(SYS_pidfd_send_signal, fd_.get(), signal, nullptr, 0) != 0) {
    return base::fail_errno(fmt::format("cannot signal process {}", pid_));
  }
  return {};
}

base::WaitStatus Pidfd::wait_status_of_stranger() const {
  // waitpid() works for children only. The kernel shows a zombie's status in /proc/PID/stat to readers that
  // may ptrace it.
  const auto st = base::ProcFs().stat(pid_);
  if (st && st->state == 'Z') {
    return base::WaitStatus(st->exit_code);
  }
  PidfdInfo info{};
  info.mask = kPidfdInfoExit;
  if (::ioctl(fd_.get(), kPidfdGetInfo, &info) == 0 && (info.mask & kPidfdInfoExit) != 0) {
    return base::WaitStatus(info.exit_code);
  }
  return {};
}

}  // namespace xpurun::launcher
