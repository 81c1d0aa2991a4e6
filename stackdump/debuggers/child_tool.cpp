#include "stackdump/debuggers/child_tool.h"

#include "common/base/clock.h"
#include "common/base/fd.h"
#include "common/base/procfs.h"
#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace xpurun::stackdump {

namespace {

constexpr size_t kMaxOutput = size_t{64} << 20;
constexpr int kPollMs = 50;

struct Pipe {
  base::UniqueFd read_end;
  base::UniqueFd write_end;
};

std::optional<Pipe> make_pipe() {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return std::nullopt;
  }
  return Pipe{base::UniqueFd(ends[0]), base::UniqueFd(ends[1])};
}

// In the child; never returns. A parent that died before the signal was asked for sends none.
[[noreturn]] void become(pid_t parent, const std::vector<std::string>& argv, int out, int err) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) {
    ::_exit(127);
  }
  ::signal(SIGPIPE, SIG_DFL);
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  ::setenv("LC_ALL", "C", 1);
  std::vector<char*> words;
  for (const std::string& word : argv) {
    words.push_back(const_cast<char*>(word.c_str()));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  }
  words.push_back(nullptr);
  ::execvp(words[0], words.data());
  ::_exit(127);
}

// What is there now. False at the end of the pipe.
bool drain(int fd, std::string& into) {
  std::array<char, 65536> part{};
  const ssize_t n = ::read(fd, part.data(), part.size());
  if (n > 0 && into.size() < kMaxOutput) {
    into.append(part.data(), static_cast<size_t>(n));
  }
  return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

}  // namespace

base::Result<ToolOutput> run_tool(const std::vector<std::string>& argv, int64_t limit_ns) {
  auto out = make_pipe();
  auto err = make_pipe();
  if (argv.empty() || !out || !err) {
    return base::fail_errno("cannot create a pipe");
  }
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    return base::fail_errno(fmt::format("cannot start {}", argv[0]));
  }
  if (child == 0) {
    become(parent, argv, out->write_end.get(), err->write_end.get());
  }
  ::setpgid(child, child);  // whoever of us comes first
  out->write_end.reset();
  err->write_end.reset();
  ToolOutput result;
  const base::MonoNs deadline = base::mono_ns() + limit_ns;
  std::array<pollfd, 2> fds{pollfd{.fd = out->read_end.get(), .events = POLLIN},
                            pollfd{.fd = err->read_end.get(), .events = POLLIN}};
  std::array<std::string*, 2> texts{&result.out, &result.err};
  int status = 0;
  bool ended = false;
  // Until the tool has ended and its last words are read. Its children may keep the pipes open for ever.
  for (;;) {
    const bool quiet = ::poll(fds.data(), fds.size(), ended ? 0 : kPollMs) <= 0;
    for (size_t i = 0; i < fds.size(); ++i) {
      if (!quiet && fds[i].revents != 0 && !drain(fds[i].fd, *texts[i])) {
        fds[i].fd = -1;
      }
    }
    if (ended && quiet) {
      break;
    }
    ended = ended || ::waitpid(child, &status, WNOHANG) == child;
    if (!ended && base::mono_ns() >= deadline) {
      result.timed_out = true;
      break;
    }
    if (ended && fds[0].fd < 0 && fds[1].fd < 0) {
      break;
    }
    if (!ended && fds[0].fd < 0 && fds[1].fd < 0) {
      ::poll(nullptr, 0, kPollMs);
    }
  }
  ::kill(-child, SIGKILL);
  if (!ended) {
    ::waitpid(child, &status, 0);
  }
  result.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (result.exit_status == 127 && result.out.empty()) {
    return base::fail(fmt::format("{} cannot be run", argv[0]));
  }
  return result;
}

bool tool_exists(const std::string& program) {
  if (program.find('/') != std::string::npos) {
    return ::access(program.c_str(), X_OK) == 0;
  }
  const char* path = std::getenv("PATH");
  const auto folders = base::split(path == nullptr ? "/usr/bin:/bin" : path, ':');
  return !program.empty() && std::any_of(folders.begin(), folders.end(), [&](std::string_view folder) {
    return ::access(fmt::format("{}/{}", folder, program).c_str(), X_OK) == 0;
  });
}

void keep_running(base::Pid pid, char state_before) {
  constexpr int kChecks = 20;
  if (state_before == 'T') {
    return;
  }
  for (int i = 0; i < kChecks; ++i) {
    const auto stat = base::ProcFs().stat(pid);
    if (!stat || (stat->state != 'T' && stat->state != 't')) {
      return;
    }
    if (stat->state == 'T') {
      ::kill(pid, SIGCONT);
    }
    ::poll(nullptr, 0, 5);
  }
}

}  // namespace xpurun::stackdump
