#include "preload/process/supervisor_link.h"

#include "preload/core/clock.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace xpurun::preload {

namespace {

constexpr uint64_t kRetryNs = 2 * kNsPerMs;

// Calls go through syscall(2). poll(3), close(3) and the like are cancellation points, and a thread that is
// being cancelled must not unwind out of a signal handler.
class Connection {
 public:
  Connection() : fd_(syscall(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    if (fd_ >= 0) {
      syscall(SYS_close, fd_);
    }
  }

  bool is_open() const { return fd_ >= 0; }
  int release() {
    const int fd = static_cast<int>(fd_);
    fd_ = -1;
    return fd;
  }
  bool connect(const sockaddr_un& address) const {
    return syscall(SYS_connect, fd_, &address, sizeof(address)) == 0;
  }
  bool send(const wire::Notice& notice) const {
    return syscall(SYS_sendto, fd_, &notice, sizeof(notice), MSG_NOSIGNAL | MSG_DONTWAIT, nullptr, 0) ==
           static_cast<long>(sizeof(notice));
  }
  // Waits until there is a byte to read or the connection has ended.
  void wait_readable(uint64_t deadline_ns) const;

 private:
  long fd_;
};

// The time until a deadline, for ppoll(2).
timespec time_left(uint64_t deadline_ns) {
  const uint64_t now = now_ns();
  const uint64_t left = deadline_ns > now ? deadline_ns - now : 0;
  return {static_cast<time_t>(left / kNsPerSecond), static_cast<long>(left % kNsPerSecond)};
}

void Connection::wait_readable(uint64_t deadline_ns) const {
  pollfd entry{static_cast<int>(fd_), POLLIN, 0};
  for (;;) {
    timespec left = time_left(deadline_ns);
    const long ready = syscall(SYS_ppoll, &entry, 1, &left, nullptr, 0);
    if (ready >= 0 || errno != EINTR) {
      return;
    }
  }
}

}  // namespace

void send_hello(const sockaddr_un& socket, const wire::Notice& notice) {
  const Connection connection;
  if (connection.is_open() && connection.connect(socket)) {
    connection.send(notice);
  }
}

int request(const sockaddr_un& socket, const wire::Notice& notice, uint64_t deadline_ns) {
  Connection connection;
  if (!connection.is_open()) {
    return -1;
  }
  // connect(2) on a Unix socket returns EAGAIN while the listener's backlog is full, for example when all
  // ranks crash at once. Unlike TCP, there is no event to poll for.
  while (!connection.connect(socket)) {
    if (errno != EAGAIN || now_ns() >= deadline_ns) {
      return -1;
    }
    sleep_until(now_ns() + kRetryNs);
  }
  if (!connection.send(notice)) {
    return -1;
  }
  connection.wait_readable(deadline_ns);
  return connection.release();
}

void send_and_wait(const sockaddr_un& socket, const wire::Notice& notice, uint64_t deadline_ns) {
  const int connection = request(socket, notice, deadline_ns);
  if (connection >= 0) {
    syscall(SYS_close, connection);
  }
}

}  // namespace xpurun::preload
