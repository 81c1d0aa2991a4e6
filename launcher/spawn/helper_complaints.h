// HelperComplaints: standard error of the helper processes, read through a pipe and logged
// line by line. A pipe instead of a file in the run directory, because a descriptor on a stalled file system
// could keep xpurun from ending. Event loop's thread only.
#pragma once

#include "common/base/os/fd.h"
#include "launcher/os/event_loop.h"

#include <string>

namespace xpurun::launcher {

class HelperComplaints {
 public:
  explicit HelperComplaints(EventLoop& loop);
  ~HelperComplaints();
  HelperComplaints(const HelperComplaints&) = delete;
  HelperComplaints& operator=(const HelperComplaints&) = delete;

  // For the helpers' standard error; -1 if there is no pipe.
  int fd() const { return write_.get(); }
  // Reads the available output. Returns the last line so far; empty after forget().
  std::string last_line();
  void forget_last_line() { last_.clear(); }

 private:
  void read_all();

  EventLoop& loop_;
  base::UniqueFd read_;
  base::UniqueFd write_;
  std::string pending_;
  std::string last_;
};

}  // namespace xpurun::launcher
