#include "launcher/storage/writer_process.h"

#include "common/base/clock.h"
#include "common/base/os/child.h"
#include "common/base/os/close_descriptors.h"
#include "launcher/storage/file_operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

constexpr int kFirstFreeFd = 3;
constexpr char kLocal = 'l';
constexpr char kServed = 's';

// If the user closed a standard stream, the socket could get its number, and messages would go into the
// socket.
base::UniqueFd above_standard_streams(base::UniqueFd fd) {
  return base::UniqueFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, kFirstFreeFd));
}

// Readers of the job's output wait until all holders of its streams have ended, so the writer gives up the
// streams. It also leaves the terminal's process group, whose signals are meant for the job.
void leave_the_job(int socket) {
  ::setsid();
  ::prctl(PR_SET_NAME, "xpurun-writer");
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGXFSZ}) {
    ::signal(signal, SIG_IGN);
  }
  base::close_descriptors(kFirstFreeFd, static_cast<unsigned>(socket) - 1);
  base::close_descriptors(static_cast<unsigned>(socket) + 1, ~0U);
  for (int fd = 0; fd < kFirstFreeFd; ++fd) {
    ::close(fd);
  }
  // open() returns the lowest free numbers: 0, 1, 2.
  for (int fd = 0; fd < kFirstFreeFd; ++fd) {
    (void)!::open("/dev/null", O_RDWR);
  }
}

// False when the supervisor is gone. The writer then continues: the last submitted operations are still
// queued.
bool send_all(int socket, std::string_view data) {
  while (!data.empty()) {
    const ssize_t n = ::send(socket, data.data(), data.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return false;
    }
    data.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

void serve(int socket) {
  std::string pending;
  std::array<char, 65536> chunk{};
  for (;;) {
    const ssize_t n = ::recv(socket, chunk.data(), chunk.size(), 0);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return;
    }
    pending.append(chunk.data(), static_cast<size_t>(n));
    while (const auto next = take_operation(pending)) {
      (void)send_all(socket, encode_answer(next->number, perform(next->operation)));
    }
  }
}

// The first answer has the number 0. It carries the opened directory in the fields of an error: `what` is
// the path, `cause` the absolute path, `hint` the kind of file system.
std::string opened_answer(const base::Result<OpenedDir>& opened) {
  if (!opened) {
    return encode_answer(0, base::fail(opened.error()));
  }
  const DirFacts& dir = opened->facts;
  return encode_answer(
      1, base::fail(base::Error{
             .what = dir.path, .cause = dir.absolute, .hint = std::string(1, dir.local ? kLocal : kServed)}));
}

[[noreturn]] void run_writer(int socket, const WriterProcess::Open& open,
                             const std::function<void()>& at_end) {
  leave_the_job(socket);
  auto opened = open();
  if (send_all(socket, opened_answer(opened)) && opened) {
    // In a thread of its own, because an operation may be waiting for the disk when the supervisor is killed.
    std::thread end([&] {
      pollfd closed{.fd = socket, .events = POLLRDHUP, .revents = 0};
      while (::poll(&closed, 1, -1) < 0 && errno == EINTR) {
      }
      if (at_end) {
        at_end();
      }
    });
    serve(socket);
    end.join();
    // Before the socket closes: the end of the socket shows the supervisor that the directory is unlocked.
    opened->lock.reset();
  }
  ::_exit(0);
}

base::Result<NumberedAnswer> first_answer(int socket, double patience_s) {
  const base::MonoNs end = base::mono_ns() + base::s_to_ns(patience_s);
  std::string pending;
  std::array<char, 4096> chunk{};
  for (;;) {
    const int64_t left_ms = (end - base::mono_ns()) / 1'000'000;
    pollfd waiting{.fd = socket, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(std::max<int64_t>(left_ms, 0)));
    if (ready < 0 && errno == EINTR) {
      continue;
    }
    if (ready <= 0) {
      return base::fail(
          base::Error{.what = fmt::format("cannot create a run directory: no answer within {} s", patience_s),
                      .id = "E-OUT-DIR",
                      .cause = "the file system does not answer",
                      .hint = "xpurun --runs-dir /tmp/xpurun-runs -- CMD..."});
    }
    const ssize_t n = ::recv(socket, chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
      continue;
    }
    if (n <= 0) {
      return base::fail("the writer of the run directory has died");
    }
    pending.append(chunk.data(), static_cast<size_t>(n));
    if (auto answer = take_answer(pending)) {
      return *answer;
    }
  }
}

}  // namespace

base::Result<WriterProcess::Started> WriterProcess::start(const Open& open, double patience_s,
                                                          const std::function<void()>& at_end) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return base::fail_errno("cannot create a socket");
  }
  base::UniqueFd ours = above_standard_streams(base::UniqueFd(ends[0]));
  base::UniqueFd theirs = above_standard_streams(base::UniqueFd(ends[1]));
  if (!ours || !theirs) {
    return base::fail_errno("cannot create a socket");
  }
  XPURUN_TRY_ASSIGN(const base::Pid pid, base::fork_child(base::ChildLife::outlives_parent, [&]() -> int {
                      ours.reset();
                      run_writer(theirs.get(), open, at_end);
                    }));
  theirs.reset();
  auto answer = first_answer(ours.get(), patience_s);
  if (!answer) {
    // Without a wait: a writer in uninterruptible sleep dies only when the file system answers.
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, WNOHANG);
    return base::fail(std::move(answer.error()));
  }
  base::Error reported = answer->error.value_or(base::Error());
  if (answer->number == 0) {
    ::waitpid(pid, nullptr, 0);
    return base::fail(std::move(reported));
  }
  ::fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  return Started{
      .writer = WriterProcess(pid, std::move(ours)),
      .dir = {.path = reported.what, .absolute = reported.cause, .local = reported.hint.front() == kLocal}};
}

}  // namespace xpurun::launcher
