#include "launcher/os/interrupt_cleanup.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>
#include <utility>

namespace xpurun::launcher {

namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};

int handler_fd = -1;  // the only state that the signal handler uses

// A signal handler may call async-signal-safe functions only. It writes to a pipe; the thread removes the
// directory.
void on_signal(int number) {
  const int saved = errno;
  const auto byte = static_cast<unsigned char>(number);
  (void)!::write(handler_fd, &byte, 1);
  errno = saved;
}

}  // namespace

HeldInterrupts::HeldInterrupts() {
  sigset_t held{};
  ::sigemptyset(&held);
  for (const int s : kSignals) {
    ::sigaddset(&held, s);
  }
  ::pthread_sigmask(SIG_BLOCK, &held, &before_);
}

HeldInterrupts::~HeldInterrupts() {
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

base::Result<std::unique_ptr<ScratchDirectory>> ScratchDirectory::create(const std::string& prefix) {
  const HeldInterrupts held;
  XPURUN_TRY_ASSIGN(base::TemporaryDirectory made, base::TemporaryDirectory::create(prefix));
  return std::make_unique<ScratchDirectory>(std::move(made));
}

InterruptCleanup::InterruptCleanup(std::string directory) : directory_(std::move(directory)) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return;  // the directory then stays after an interrupt; that is acceptable
  }
  signalled_.reset(ends[0]);
  handler_fd = ends[1];
  thread_ = std::thread([this] { wait(); });
  for (int s : kSignals) {
    struct sigaction before {};
    ::sigaction(s, nullptr, &before);
    if (before.sa_handler == SIG_DFL) {  // an ignored signal stays ignored (nohup)
      struct sigaction action {};
      action.sa_handler = on_signal;
      action.sa_flags = SA_RESTART;
      ::sigaction(s, &action, nullptr);
    }
  }
}

InterruptCleanup::~InterruptCleanup() {
  if (!thread_.joinable()) {
    return;
  }
  for (int s : kSignals) {
    struct sigaction now {};
    // Another part of the program may have installed its own handler since. That handler stays.
    ::sigaction(s, nullptr, &now);
    if (now.sa_handler == on_signal) {
      ::signal(s, SIG_DFL);
    }
  }
  on_signal(0);
  thread_.join();
  ::close(std::exchange(handler_fd, -1));
}

void InterruptCleanup::wait() {
  unsigned char number = 0;
  ssize_t n = 0;
  do {
    n = ::read(signalled_.get(), &number, 1);
  } while (n < 0 && errno == EINTR);
  if (n != 1 || number == 0) {
    return;
  }
  // Another thread, or a helper, may create a file in the directory meanwhile.
  constexpr int kTries = 20;
  std::error_code ec;
  for (int i = 0; i < kTries && std::filesystem::exists(directory_, ec); ++i) {
    std::filesystem::remove_all(directory_, ec);
  }
  ::signal(number, SIG_DFL);
  // Dies of the same signal, so that the parent sees why this process ended.
  ::kill(::getpid(), number);
}

}  // namespace xpurun::launcher
