// Sink: a thread that writes its input, in order, to a target that may stall (a terminal, a pipe, a disk). No
// other thread waits for the target. The caller bounds the queue by calling has_room() before push().
// Threads: every public function may be called from any thread; `write` runs on the sink's own thread.
#pragma once

#include "common/base/clock.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>

namespace xpurun::launcher {

struct Output {
  size_t stream = 0;
  uint32_t rank = 0;
  bool ours = false;  // a message of xpurun
  uint64_t lost = 0;  // number of bytes dropped before these
  std::string bytes;
};

class Sink {
 public:
  // `woken` is called when there is room again, and when the queue is empty.
  Sink(std::function<void(const Output&)> write, std::function<void()> woken);
  // The thread lives as long as the process: it may be inside a write that never returns.
  ~Sink() = delete;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  bool has_room() const;
  bool idle() const;
  // Duration of the current write so far, in seconds.
  double stuck_s() const;
  void push(Output output);

 private:
  void work();

  std::function<void(const Output&)> write_;
  std::function<void()> woken_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Output> queue_;
  size_t queued_ = 0;               // bytes, including the current write
  base::MonoNs writing_since_ = 0;  // 0: not writing
};

}  // namespace xpurun::launcher
