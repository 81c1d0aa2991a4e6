#include "launcher/os/acceptor.h"

#include "common/base/output/log.h"

#include <cerrno>
#include <cstring>
#include <sys/epoll.h>
#include <sys/socket.h>

namespace xpurun::launcher {

namespace {
// In a row: the loop has other things to do.
constexpr int kMostAtATime = 64;
constexpr double kRestS = 0.25;

// accept(2): errors of one connection, not of the listener.
bool concerns_one_connection(int err) {
  return err == ECONNABORTED || err == EINTR || err == EPROTO || err == EPERM;
}
}  // namespace

base::Status Acceptor::start(base::UniqueFd listener) {
  close();
  listener_ = std::move(listener);
  return watch();
}

base::Status Acceptor::watch() {
  rest_ = 0;
  return loop_.add(listener_.get(), EPOLLIN, [this](uint32_t) { accept_some(); });
}

void Acceptor::close() {
  loop_.cancel(rest_);
  if (listener_) {
    loop_.remove(listener_.get());
    listener_.reset();
  }
}

void Acceptor::accept_some() {
  for (int i = 0; i < kMostAtATime && listener_; ++i) {
    base::UniqueFd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection) {
      handler_(std::move(connection));
      continue;
    }
    const int err = errno;
    if (concerns_one_connection(err)) {
      continue;
    }
    if (err != EAGAIN) {
      base::log_debug("cannot accept a connection: {}; next try in {} s", std::strerror(err), kRestS);
      loop_.remove(listener_.get());
      rest_ = loop_.after(kRestS, [this] { (void)watch(); });
    }
    return;
  }
}

}  // namespace xpurun::launcher
