// MismatchWatch: compares the recorded calls of the ranks while the job runs. Ranks that make different calls
// need not hang: NCCL lets some of them meet, and the results are wrong from then on. Event loop's thread
// only.
#pragma once

#include "common/model/collectives.h"
#include "launcher/os/event_loop.h"

#include <functional>
#include <set>
#include <string>

namespace xpurun::launcher {

class MismatchWatch {
 public:
  struct Hooks {
    std::function<model::CollectiveFacts()> calls;
    std::function<void(const std::string&)> say;
  };

  MismatchWatch(EventLoop& loop, Hooks hooks) : loop_(loop), hooks_(std::move(hooks)) {}
  ~MismatchWatch() { stop(); }
  MismatchWatch(const MismatchWatch&) = delete;
  MismatchWatch& operator=(const MismatchWatch&) = delete;

  void start() { look_after(kShortestS); }
  void stop() { loop_.cancel(timer_); }
  // Says a mismatch that two looks in a row have found, once for each communicator.
  void look();

 private:
  static constexpr double kShortestS = 1;
  // A look takes at most one part in this number of the time.
  static constexpr double kShare = 200;

  void look_after(double seconds);

  EventLoop& loop_;
  Hooks hooks_;
  EventLoop::TimerId timer_ = 0;
  std::string seen_;            // by the latest look: communicator and number
  std::set<std::string> said_;  // communicators
};

}  // namespace xpurun::launcher
