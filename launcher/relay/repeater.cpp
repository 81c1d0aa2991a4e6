#include "launcher/relay/repeater.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <poll.h>
#include <string_view>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

// Returns 0 or errno. Waits on EAGAIN: the stream is shared, and another program may have made it
// non-blocking.
int write_patiently(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n >= 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      pollfd waiting{.fd = fd, .events = POLLOUT, .revents = 0};
      (void)::poll(&waiting, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

void Repeater::write(const Output& output) {
  if (stopped_) {
    return;
  }
  const bool labelled = prefix_ == LinePrefix::rank && !output.ours;
  const int error =
      write_patiently(target_, labelled ? labels_.label(output.rank, output.bytes) : output.bytes);
  if (error == 0) {
    return;
  }
  if (error == EPIPE || error == EBADF || error == EIO) {
    stopped_ = true;
  }
  if (!complained_ && target_ != STDERR_FILENO) {
    complained_ = true;
    complain_(fmt::format(
        "cannot repeat the ranks' output on standard output: {}; the job continues, its output is in the "
        "run directory",
        std::strerror(error)));
  }
}

}  // namespace xpurun::launcher
