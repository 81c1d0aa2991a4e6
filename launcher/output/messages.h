// Messages: what the supervisor says on standard error. A reader that has stopped reading must not stop the
// supervisor: what the stream does not take is kept, tried again from the event loop, and beyond a bound
// dropped, which is said. The stream is shared with the job, so its own flags are not touched.
#pragma once

#include "common/base/os/fd.h"
#include "launcher/os/event_loop.h"

#include <string>
#include <string_view>

namespace xpurun::launcher {

class Messages {
 public:
  // `fd` stays the caller's and open.
  Messages(EventLoop& loop, int fd);
  ~Messages();
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  // "xpurun: " and a newline are added.
  void say(std::string_view line);
  // Whole lines as they are.
  void write(std::string_view lines);
  // Waits for what is kept, so long at most.
  void flush(double patience_s);

 private:
  enum class Way {
    own_description,  // opened anew, non-blocking
    socket,           // asked not to wait with every write
    direct,           // a file, or a stream that can only be asked before
  };

  void pump();
  ssize_t put(std::string_view bytes) const;
  int target() const { return own_ ? own_.get() : fd_; }

  EventLoop& loop_;
  int fd_;
  base::UniqueFd own_;
  Way way_ = Way::direct;
  bool may_block_ = false;
  std::string kept_;
  size_t dropped_ = 0;  // lines
  EventLoop::TimerId retry_ = 0;
};

}  // namespace xpurun::launcher
