// Runs xpurun-stackdump on a file instead of a process.
#include "commands/stacks/task.h"
#include "common/base/clock.h"
#include "launcher/spawn/helper_process.h"

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

constexpr int kRedrawMs = 200;
constexpr size_t kMostOutput = size_t{4} << 20;

// Returns when the helper closes its output or at the time limit.
std::string output_until_end(const HelperProcess& helper, double limit_s, base::Progress& progress) {
  std::string out;
  const base::MonoNs deadline = base::mono_ns() + base::s_to_ns(limit_s);
  for (;;) {
    const base::MonoNs left = deadline - base::mono_ns();
    pollfd p{.fd = helper.output(), .events = POLLIN, .revents = 0};
    const int wait_ms =
        std::min(static_cast<int>(std::min<int64_t>(left / 1'000'000, kRedrawMs)) + 1, kRedrawMs);
    if (left <= 0 || (::poll(&p, 1, wait_ms) < 0 && errno != EINTR)) {
      return out;
    }
    progress.advance(0);
    char buf[4096];
    if ((p.revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
      const ssize_t n = ::read(helper.output(), buf, sizeof buf);
      if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        return out;
      }
      if (n > 0 && out.size() < kMostOutput) {
        out.append(buf, static_cast<size_t>(n));
      }
    }
  }
}

}  // namespace

base::Result<std::string> run_resolver(const std::vector<std::string>& argv, double limit_s, int stderr_fd,
                                       base::Progress& progress) {
  sigset_t mask;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  XPURUN_TRY_ASSIGN(HelperProcess helper, HelperProcess::start(argv, mask, stderr_fd));
  helper.close_input();
  std::string out = output_until_end(helper, limit_s, progress);
  const base::Pid pid = helper.pid();
  helper.kill();
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return out;
}

}  // namespace xpurun::launcher
