#include "launcher/os/event_loop.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <sys/epoll.h>

namespace xpurun::launcher {

base::Result<EventLoop> EventLoop::create() {
  EventLoop loop;
  loop.epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!loop.epoll_) {
    return base::fail_errno("cannot create an epoll instance");
  }
  return loop;
}

base::Result<EventLoop> EventLoop::create_simulated(base::MonoNs start) {
  XPURUN_TRY_ASSIGN(EventLoop loop, create());
  loop.simulated_now_ = start;
  loop.cpu_clock_ = [] { return base::MonoNs{0}; };
  return loop;
}

base::Status EventLoop::add(int fd, uint32_t epoll_events, FdHandler handler) {
  epoll_event event{};
  event.events = epoll_events;
  event.data.fd = fd;
  const int op = handlers_.count(fd) != 0 ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  if (::epoll_ctl(epoll_.get(), op, fd, &event) != 0) {
    return base::fail_errno("cannot watch a descriptor");
  }
  handlers_[fd] = std::make_shared<FdHandler>(std::move(handler));
  return {};
}

// Call before the descriptor is closed. epoll watches the open file, not the number: if a child has inherited
// a copy, events continue after close().
void EventLoop::remove(int fd) {
  if (handlers_.erase(fd) != 0) {
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  }
}

EventLoop::TimerId EventLoop::at(base::MonoNs when, TimerHandler handler) {
  const TimerId id = next_timer_++;
  timers_.emplace(std::pair(when, id), std::move(handler));
  timer_times_[id] = when;
  return id;
}

EventLoop::TimerId EventLoop::after(double seconds, TimerHandler handler) {
  return at(now() + base::s_to_ns(seconds), std::move(handler));
}

void EventLoop::cancel(TimerId id) {
  const auto it = timer_times_.find(id);
  if (it != timer_times_.end()) {
    timers_.erase({it->second, id});
    timer_times_.erase(it);
  }
}

int EventLoop::next_timeout_ms() const {
  if (simulated_now_) {
    return 0;
  }
  if (timers_.empty()) {
    return -1;
  }
  const base::MonoNs wait = timers_.begin()->first.first - now();
  // Rounded up: waking a moment early would only spin.
  return static_cast<int>(std::clamp<base::MonoNs>((wait + 999'999) / 1'000'000, 0, 3'600'000));
}

bool EventLoop::jump_to_next_timer() {
  if (timers_.empty()) {
    return false;
  }
  simulated_now_ = std::max(*simulated_now_, timers_.begin()->first.first);
  return true;
}

void EventLoop::run_due_timers() {
  const base::MonoNs due = now();
  while (!stopped_ && !timers_.empty() && timers_.begin()->first.first <= due) {
    // Taken out first, because the handler may set and cancel timers.
    auto node = timers_.extract(timers_.begin());
    timer_times_.erase(node.key().second);
    node.mapped()();
  }
}

base::Status EventLoop::run() {
  stopped_ = false;
  std::array<epoll_event, 64> events{};
  while (!stopped_) {
    const int n =
        ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), next_timeout_ms());
    if (n < 0 && errno != EINTR) {
      return base::fail_errno("epoll_wait failed");
    }
    for (int i = 0; i < n && !stopped_; ++i) {
      // An earlier handler of this batch may have removed the descriptor. epoll_wait() has already reported
      // it.
      const auto it = handlers_.find(events[static_cast<size_t>(i)].data.fd);
      if (it != handlers_.end()) {
        // Keeps the handler alive: it may remove its own descriptor while it runs.
        const auto keep_alive = it->second;
        (*keep_alive)(events[static_cast<size_t>(i)].events);
      }
    }
    if (n == 0 && simulated_now_ && !stopped_ && !jump_to_next_timer()) {
      return {};
    }
    run_due_timers();
  }
  return {};
}

}  // namespace xpurun::launcher
