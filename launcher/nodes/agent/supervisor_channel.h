// SupervisorChannel: lines to and from the supervisor over descriptor 3. Never waits: what the socket does
// not take is queued, with a limit, and lists of nodes are left out first. Event loop's thread only.
#pragma once

#include "common/base/os/fd.h"
#include "common/base/result.h"
#include "launcher/nodes/node_messages.h"
#include "launcher/os/event_loop.h"

#include <functional>
#include <string>

namespace xpurun::nodes {

class SupervisorChannel {
 public:
  using Handler = std::function<void(const launcher::ToHelper&)>;

  // `gone`: the supervisor has closed its end. `handler` and `gone` may send.
  SupervisorChannel(launcher::EventLoop& loop, base::UniqueFd socket, Handler handler,
                    std::function<void()> gone);
  ~SupervisorChannel();
  SupervisorChannel(const SupervisorChannel&) = delete;
  SupervisorChannel& operator=(const SupervisorChannel&) = delete;

  base::Status start();
  void send(const launcher::FromHelper& message);
  // Waits until everything is sent, at most for this time. For the end of the program.
  void flush(int milliseconds);

 private:
  void ready(uint32_t events);
  void read_some();
  void write_some();
  void watch();

  launcher::EventLoop& loop_;
  base::UniqueFd socket_;
  Handler handler_;
  std::function<void()> gone_;
  std::string input_;
  std::string output_;
  size_t sent_ = 0;  // of the output
  uint32_t watched_ = 0;
};

}  // namespace xpurun::nodes
