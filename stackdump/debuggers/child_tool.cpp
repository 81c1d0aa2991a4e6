#include "stackdump/debuggers/child_tool.h"

#include "common/base/os/program.h"
#include "common/base/strings.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace xpurun::stackdump {

namespace {

constexpr size_t kMaxOutput = size_t{64} << 20;
constexpr int kPollMs = 50;

// Reads the bytes that are available now. False at the end of the pipe.
bool drain(int fd, std::string& into) {
  std::array<char, 65536> part{};
  const ssize_t n = ::read(fd, part.data(), part.size());
  if (n > 0 && into.size() < kMaxOutput) {
    into.append(part.data(), static_cast<size_t>(n));
  }
  return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

// A thread of the target that is in uninterruptible sleep at every check, or 0. There are several checks,
// because file reads and program starts put a healthy thread into state D for a moment.
base::Tid long_sleeper(base::Pid target) {
  constexpr int kLooks = 10;
  base::Tid last = 0;
  for (int i = 0; i < kLooks; ++i) {
    const auto tid = uninterruptible_thread(target);
    if (!tid) {
      return 0;
    }
    last = *tid;
    ::poll(nullptr, 0, kPollMs);
  }
  return last;
}

tl::unexpected<base::Error> refuse(const std::vector<std::string>& argv, base::Tid sleeper) {
  return base::fail(fmt::format("{} cannot stop thread {}, which is in uninterruptible sleep (state D)",
                                base::base_name(argv.at(0)), sleeper));
}

}  // namespace

base::Result<ToolOutput> run_tool(const std::vector<std::string>& argv, int64_t limit_ns, base::Pid target,
                                  int64_t detach_ns) {
  // ptrace cannot stop a thread in state D. gdb would wait for it until its time limit.
  if (const base::Tid tid = target == 0 ? 0 : long_sleeper(target); tid != 0) {
    return refuse(argv, tid);
  }
  XPURUN_TRY_ASSIGN(base::Pipe out, base::make_pipe());
  XPURUN_TRY_ASSIGN(base::Pipe err, base::make_pipe());
  XPURUN_TRY_ASSIGN(TracerGuard guard, TracerGuard::start({.argv = argv,
                                                           .limit_ns = limit_ns,
                                                           .detach_ns = detach_ns,
                                                           .target = target,
                                                           .out = out.write_end.get(),
                                                           .err = err.write_end.get()}));
  out.write_end.reset();
  err.write_end.reset();
  ToolOutput result;
  std::array<pollfd, 3> fds{pollfd{.fd = out.read_end.get(), .events = POLLIN, .revents = 0},
                            pollfd{.fd = err.read_end.get(), .events = POLLIN, .revents = 0},
                            pollfd{.fd = guard.report_fd(), .events = POLLIN, .revents = 0}};
  const std::array<std::string*, 2> texts{&result.out, &result.err};
  const pollfd& reported = fds[2];
  // Runs until the report has arrived and the tool's last output is read. The pipes' end is no sign, because
  // a process that escaped the guard may keep them open for ever.
  for (bool quiet = false; !quiet || reported.revents == 0;) {
    quiet = true;
    if (::poll(fds.data(), fds.size(), -1) < 0) {
      continue;
    }
    for (size_t i = 0; i < texts.size(); ++i) {
      if (fds[i].revents == 0) {
        continue;
      }
      quiet = false;
      if (!drain(fds[i].fd, *texts[i])) {
        fds[i].fd = -1;
        fds[i].revents = 0;
      }
    }
  }
  const GuardReport report = guard.report();
  if (report.end == ToolEnd::asleep) {
    return refuse(argv, report.asleep);
  }
  result.end = report.end;
  result.exit_status =
      WIFEXITED(report.wait_status) ? WEXITSTATUS(report.wait_status) : 128 + WTERMSIG(report.wait_status);
  if (result.end == ToolEnd::exited && result.exit_status == 127 && result.out.empty()) {
    return base::fail(fmt::format("{} cannot be run", argv[0]));
  }
  return result;
}

bool tool_exists(const std::string& program) {
  return base::find_program(program).has_value();
}

}  // namespace xpurun::stackdump
