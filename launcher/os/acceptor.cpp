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

AcceptResult accept_connection(int listener, int flags) {
  AcceptResult out;
  out.connection.reset(::accept4(listener, nullptr, nullptr, flags));
  if (!out.connection) {
    out.error = errno;
    out.again = concerns_one_connection(out.error);
    out.exhausted = !out.again && out.error != EAGAIN;
  }
  return out;
}

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
    AcceptResult result = accept_connection(listener_.get(), SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (result.connection) {
      handler_(std::move(result.connection));
      continue;
    }
    if (result.exhausted) {
      base::log_debug("cannot accept a connection: {}; next try in {} s", std::strerror(result.error),
                      kRestS);
      loop_.remove(listener_.get());
      rest_ = loop_.after(kRestS, [this] { (void)watch(); });
    }
    if (!result.again) {
      return;
    }
  }
}

}  // namespace xpurun::launcher
