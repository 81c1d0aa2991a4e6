#include "launcher/output/screen.h"

#include "common/base/clock.h"
#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/base/tr.h"

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <utility>

namespace xpurun::launcher {

namespace {

constexpr char kCtrlD = 4;

sigset_t watched() {
  sigset_t set;
  sigemptyset(&set);
  for (int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH}) {
    sigaddset(&set, s);
  }
  return set;
}

winsize size() {
  winsize out{};
  (void)::ioctl(STDOUT_FILENO, TIOCGWINSZ, &out);
  return out;
}

}  // namespace

Screen::Screen(Screen&& other) noexcept
    : open_(std::exchange(other.open_, false)),
      signal_(other.signal_),
      saved_(other.saved_),
      old_mask_(other.old_mask_),
      signals_(std::move(other.signals_)) {}

base::Result<Screen> Screen::open() {
  Screen out;
  if (::tcgetattr(STDIN_FILENO, &out.saved_) != 0) {
    return base::fail_errno(base::cli_text("standard input is not a terminal"));
  }
  const sigset_t set = watched();
  out.signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!out.signals_ || ::sigprocmask(SIG_BLOCK, &set, &out.old_mask_) != 0) {
    return base::fail_errno(base::cli_text("cannot receive signals"));
  }
  out.open_ = true;
  out.enter();
  return out;
}

void Screen::enter() {
  termios raw = saved_;
  // ISIG stays on: Ctrl-C and Ctrl-Z still send signals.
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  // With VMIN 0, read() returns at once: poll() does the waiting.
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  (void)::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
  // The alternate screen: the shell's output returns afterwards.
  (void)base::write_all(STDOUT_FILENO, "\x1b[?1049h\x1b[?25l");
}

void Screen::leave() const {
  (void)base::write_all(STDOUT_FILENO, "\x1b[?25h\x1b[?1049l");
  (void)::tcsetattr(STDIN_FILENO, TCSADRAIN, &saved_);
}

void Screen::close() {
  if (open_) {
    open_ = false;
    leave();
    ::sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
  }
}

void Screen::stop() {
  leave();
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTSTP);
  // The signal is blocked and stays pending until it is unblocked.
  ::raise(SIGTSTP);
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
  // The process stops here until SIGCONT.
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  enter();
}

size_t Screen::columns() const {
  return std::max<size_t>(size().ws_col, 20);
}

size_t Screen::rows() const {
  return std::max<size_t>(size().ws_row, 4);
}

void Screen::show(const std::string& text) {
  // Overwrites line by line and clears the rest: no flicker.
  std::string out = "\x1b[H";
  const auto lines = base::split(text, '\n');
  const size_t count = std::min(lines.size(), rows());
  for (size_t i = 0; i < count; ++i) {
    out += lines[i];
    out += "\x1b[K";
    out += i + 1 < count ? "\r\n" : "";
  }
  (void)base::write_all(STDOUT_FILENO, out + "\x1b[J");
}

Screen::Event Screen::wait(double seconds) {
  const base::MonoNs end = base::mono_ns() + base::s_to_ns(seconds);
  for (;;) {
    const int64_t left_ms = std::max<int64_t>((end - base::mono_ns()) / 1'000'000, 0);
    pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                    {.fd = signals_.get(), .events = POLLIN, .revents = 0}};
    const int ready = ::poll(fds, 2, static_cast<int>(std::min<int64_t>(left_ms, 1'000'000)));
    if (ready < 0 && errno != EINTR) {
      return Event::quit;
    }
    signalfd_siginfo info{};
    if (fds[1].revents != 0 &&
        ::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      signal_ = static_cast<int>(info.ssi_signo);
      if (signal_ == SIGTSTP) {
        stop();
      }
      return signal_ == SIGTSTP || signal_ == SIGWINCH ? Event::redraw : Event::signal;
    }
    char key = 0;
    if (fds[0].revents != 0) {
      const ssize_t n = ::read(STDIN_FILENO, &key, 1);
      // The terminal has hung up.
      const bool gone = n < 0 || (n == 0 && (fds[0].revents & POLLHUP) != 0);
      if (gone || key == 'q' || key == 'Q' || key == kCtrlD) {
        return Event::quit;
      }
      key_ = key;
      return Event::key;
    }
    if (ready == 0) {
      return Event::time;
    }
  }
}

}  // namespace xpurun::launcher
