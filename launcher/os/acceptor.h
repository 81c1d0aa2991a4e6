// Acceptor: takes the connections of a listening socket on the event loop. While no descriptor is free, the
// listener rests: a level-triggered loop would otherwise spin on a connection that cannot be accepted.
#pragma once

#include "common/base/os/fd.h"
#include "common/base/result.h"
#include "launcher/os/timer.h"

#include <functional>

namespace xpurun::launcher {

struct AcceptResult {
  base::UniqueFd connection;
  bool again = false;      // this connection failed; there may be others
  bool exhausted = false;  // no descriptor or memory is free: rest before the next try
  int error = 0;           // errno
};
// Accepts one connection with these flags of accept4(2). No connection, and neither `again` nor `exhausted`:
// none is waiting.
AcceptResult accept_connection(int listener, int flags);

class Acceptor {
 public:
  using Handler = std::function<void(base::UniqueFd connection)>;

  // Connections are close-on-exec and non-blocking.
  Acceptor(EventLoop& loop, Handler handler) : loop_(loop), handler_(std::move(handler)) {}
  ~Acceptor() { close(); }
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // `listener` is non-blocking and already listens.
  base::Status start(base::UniqueFd listener);
  bool listening() const { return listener_.valid(); }
  void close();

 private:
  base::Status watch();
  void accept_some();

  EventLoop& loop_;
  Handler handler_;
  base::UniqueFd listener_;
  Timer rest_{loop_};
};

}  // namespace xpurun::launcher
