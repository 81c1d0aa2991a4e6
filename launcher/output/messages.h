// Messages: the supervisor's messages on standard error. A reader that stops reading must not block the
// supervisor: lines that the stream does not accept are kept up to a limit and retried from the event loop;
// beyond the limit they are dropped, and their number is reported. The stream is shared with the job, so its
// flags are not changed.
#pragma once

#include "common/base/os/fd.h"
#include "launcher/os/timer.h"
#include "launcher/output/ink.h"

#include <optional>
#include <string>
#include <string_view>

namespace xpurun::launcher {

class Messages {
 public:
  // The caller owns `fd` and keeps it open.
  Messages(EventLoop& loop, int fd);
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  // "xpurun: " and a newline are added. On a terminal the line is wrapped at its width, between words, and
  // leading blanks indent all of it.
  void say(std::string_view line, std::optional<Ink::Colour> colour = std::nullopt);
  // "LABEL: PATH", with the path whole, and a link on a terminal.
  void say_file(std::string_view label, std::string_view host, const std::string& path);
  // Complete lines, unchanged.
  void write(std::string_view lines);
  // Waits at most `patience_s` until the kept lines are written.
  void flush(double patience_s);

 private:
  enum class Way {
    own_description,  // reopened, non-blocking
    socket,           // MSG_DONTWAIT on every write
    direct,           // a file, or a stream that is polled before each write
  };

  void pump();
  ssize_t put(std::string_view bytes) const;
  int target() const { return own_ ? own_.get() : fd_; }

  EventLoop& loop_;
  int fd_;
  bool is_terminal_;
  Ink ink_;
  base::UniqueFd own_;
  Way way_ = Way::direct;
  bool may_block_ = false;
  std::string kept_;
  size_t dropped_ = 0;  // lines
  Timer retry_{loop_};
};

}  // namespace xpurun::launcher
