// Timer: one timer of an event loop, which ends with its object. The loop's thread only.
#pragma once

#include "launcher/os/event_loop.h"

#include <utility>

namespace xpurun::launcher {

class Timer {
 public:
  // `loop` outlives this object.
  explicit Timer(EventLoop& loop) : loop_(loop) {}
  ~Timer() { stop(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  // The handler runs once. It may start, stop and destroy the timer. What was started before never runs.
  void at(base::MonoNs when, EventLoop::TimerHandler handler) {
    stop();
    id_ = loop_.at(when, [this, handler = std::move(handler)] {
      id_ = 0;
      handler();
    });
  }
  void after(double seconds, EventLoop::TimerHandler handler) {
    at(loop_.now() + base::s_to_ns(seconds), std::move(handler));
  }
  void stop() { loop_.cancel(std::exchange(id_, 0)); }
  // The handler is still to run.
  bool running() const { return id_ != 0; }

 private:
  EventLoop& loop_;
  EventLoop::TimerId id_ = 0;
};

}  // namespace xpurun::launcher
