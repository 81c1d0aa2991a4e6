// EventLoop: the only place where the supervisor waits: epoll for descriptors, plus one-shot timers. Handlers
// run on the calling thread. A handler may add and remove anything, itself included.
#pragma once

#include "common/base/clock.h"
#include "common/base/os/fd.h"
#include "common/base/result.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

namespace xpurun::launcher {

class EventLoop {
 public:
  using FdHandler = std::function<void(uint32_t epoll_events)>;
  using TimerHandler = std::function<void()>;
  using TimerId = uint64_t;

  static base::Result<EventLoop> create();
  // For tests: the clock stands at `start`, and jumps to the next timer whenever no descriptor is ready.
  // run() also returns when no timer and no ready descriptor is left. Nothing takes CPU time.
  static base::Result<EventLoop> create_simulated(base::MonoNs start);

  // Simulated clock: acts as if the process had been stopped for this time.
  void suspend(double seconds) { *simulated_now_ += base::s_to_ns(seconds); }

  // CLOCK_MONOTONIC, or the simulated clock.
  base::MonoNs now() const { return simulated_now_ ? *simulated_now_ : base::mono_ns(); }
  // CPU time of the thread that runs the loop, from which its owners tell what their work has cost.
  base::MonoNs cpu() const { return cpu_clock_(); }
  // For tests: replaces the clock behind cpu().
  void set_cpu_clock(std::function<base::MonoNs()> clock) { cpu_clock_ = std::move(clock); }

  // Level-triggered. The caller owns the descriptor and calls remove() before closing it.
  base::Status add(int fd, uint32_t epoll_events, FdHandler handler);
  void remove(int fd);

  TimerId at(base::MonoNs when, TimerHandler handler);
  TimerId after(double seconds, TimerHandler handler);
  // Unknown and past ids are ignored.
  void cancel(TimerId id);

  // Dispatches until stop() is called from a handler.
  base::Status run();
  void stop() { stopped_ = true; }

 private:
  void run_due_timers();
  int next_timeout_ms() const;
  // False if there is no timer to jump to.
  bool jump_to_next_timer();

  base::UniqueFd epoll_;
  std::map<int, std::shared_ptr<FdHandler>> handlers_;
  // Ordered by time, then by age, so that equal times fire in the order of their creation.
  std::map<std::pair<base::MonoNs, TimerId>, TimerHandler> timers_;
  std::map<TimerId, base::MonoNs> timer_times_;
  TimerId next_timer_ = 1;
  bool stopped_ = false;
  std::optional<base::MonoNs> simulated_now_;
  std::function<base::MonoNs()> cpu_clock_ = base::thread_cpu_ns;
};

}  // namespace xpurun::launcher
