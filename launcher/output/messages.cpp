#include "launcher/output/messages.h"

#include "common/base/output/terminal.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "launcher/output/message_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace xpurun::launcher {

namespace {
constexpr size_t kMostKept = 256 * 1024;
constexpr double kRetryS = 0.05;
// A writable pipe accepts this many bytes without waiting (PIPE_BUF, pipe(7)).
constexpr size_t kPipeStep = 4096;

bool writable(int fd, int wait_ms) {
  pollfd waiting{.fd = fd, .events = POLLOUT, .revents = 0};
  return ::poll(&waiting, 1, wait_ms) == 1;
}
}  // namespace

Messages::Messages(EventLoop& loop, int fd)
    : loop_(loop), fd_(fd), is_terminal_(base::is_terminal(fd)), ink_(Ink::for_stream(fd)) {
  struct stat st {};
  if (::fstat(fd, &st) != 0) {
    return;
  }
  if (S_ISSOCK(st.st_mode)) {
    way_ = Way::socket;
  } else if (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)) {
    may_block_ = true;
    // O_NONBLOCK on the shared file description would also affect the ranks. A reopened regular file would
    // lose its position.
    own_.reset(
        ::open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    way_ = own_ ? Way::own_description : Way::direct;
  }
}

ssize_t Messages::put(std::string_view bytes) const {
  if (way_ == Way::socket) {
    return ::send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  if (way_ == Way::direct && may_block_) {
    if (!writable(fd_, 0)) {
      errno = EAGAIN;
      return -1;
    }
    bytes = bytes.substr(0, kPipeStep);
  }
  return ::write(target(), bytes.data(), bytes.size());
}

void Messages::pump() {
  retry_.stop();
  while (!kept_.empty()) {
    const ssize_t n = put(kept_);
    if (n > 0) {
      kept_.erase(0, static_cast<size_t>(n));
    } else if (n < 0 && errno == EAGAIN) {
      retry_.after(kRetryS, [this] { pump(); });
      return;
    } else if (n == 0 || errno != EINTR) {
      // The reader is gone or the disk is full. xpurun.log has the messages.
      kept_.clear();
    }
    if (kept_.empty() && dropped_ != 0) {
      kept_ = fmt::format("xpurun: {} lines were dropped: the stream accepted no more\n",
                          std::exchange(dropped_, 0));
    }
  }
}

void Messages::write(std::string_view lines) {
  if (kept_.size() + lines.size() > kMostKept) {
    dropped_ += static_cast<size_t>(std::count(lines.begin(), lines.end(), '\n'));
    return;
  }
  kept_ += lines;
  pump();
}

void Messages::say(std::string_view line, std::optional<Ink::Colour> colour) {
  const size_t columns = is_terminal_ ? base::terminal_columns(fd_) : kUnlimited;
  write(message_text(base::sanitize(line), columns, ink_, colour));
}

void Messages::say_file(std::string_view label, std::string_view host, const std::string& path) {
  const std::string safe = base::sanitize(path);
  const std::string shown = is_terminal_ && ink_.is_on() && safe == path ? link_text(host, path) : safe;
  write(fmt::format("xpurun: {}\n", base::tr("{}: {}", label, shown)));
}

void Messages::flush(double patience_s) {
  const base::MonoNs end = base::mono_ns() + base::s_to_ns(patience_s);
  for (pump(); !kept_.empty() && base::mono_ns() < end; pump()) {
    (void)writable(target(), 50);
  }
}

}  // namespace xpurun::launcher
