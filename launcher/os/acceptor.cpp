#include "launcher/os/acceptor.h"

#include "common/base/output/log.h"

#include <cerrno>
#include <cstring>
#include <sys/epoll.h>
#include <sys/socket.h>

namespace xpurun::launcher {

namespace {
// Connections accepted in a row. Then other descriptors get their turn.
constexpr int kMostAtATime = 64;
constexpr double kRestS = 0.25;

// True if accept(2) failed because of this connection and not because of the listener.
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
  return loop_.add(listener_.get(), EPOLLIN, [this](uint32_t) { accept_some(); });
}

void Acceptor::close() {
  rest_.stop();
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
      // The connection stays in the backlog and keeps the listener readable, so the listener leaves the loop
      // for a moment.
      loop_.remove(listener_.get());
      rest_.after(kRestS, [this] { (void)watch(); });
    }
    if (!result.again) {
      return;
    }
  }
}

}  // namespace xpurun::launcher
