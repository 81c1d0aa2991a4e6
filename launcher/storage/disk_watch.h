// DiskWatch: probes the file system of the run directory repeatedly. Used at the end of a run, while helpers
// read and write there: xpurun does not wait for helpers on a stalled file system.
#pragma once

#include "launcher/os/timer.h"
#include "launcher/storage/storage.h"

#include <functional>
#include <string>

namespace xpurun::launcher {

class DiskWatch {
 public:
  // `directory`: place for a temporary probe file.
  DiskWatch(EventLoop& loop, Storage& storage, std::string directory)
      : timer_(loop), storage_(storage), probe_(std::move(directory) + "/.probe") {}
  DiskWatch(const DiskWatch&) = delete;
  DiskWatch& operator=(const DiskWatch&) = delete;

  // Calls `stalled` at most once, after `patience_s` without an answer.
  void start(double patience_s, std::function<void()> stalled);

 private:
  void ask();

  Timer timer_;
  Storage& storage_;
  std::string probe_;
  double patience_s_ = 0;
  std::function<void()> stalled_;
  bool started_ = false;
};

}  // namespace xpurun::launcher
