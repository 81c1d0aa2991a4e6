// CollectiveLooks: for some steps in every minute, each collective of every rank is timed. Sampled
// collectives show how long collectives take, but only all collectives of a step show how long a rank waited
// in that step. A look begins at a full minute of UTC, so that all nodes of a job look at the same steps.
// Event loop's thread only.
#pragma once

#include "common/base/clock.h"
#include "launcher/os/timer.h"

#include <functional>

namespace xpurun::launcher {

// Duration of a look at a job with steps of `step_s`; negative: unknown.
double look_seconds(double step_s);

class CollectiveLooks {
 public:
  struct Hooks {
    std::function<double()> step_s;  // negative: unknown
    std::function<void()> changed;   // looking() has changed
    std::function<int64_t()> wall_ns = [] { return base::wall_ns(); };
  };

  CollectiveLooks(EventLoop& loop, Hooks hooks) : timer_(loop), hooks_(std::move(hooks)) {}
  CollectiveLooks(const CollectiveLooks&) = delete;
  CollectiveLooks& operator=(const CollectiveLooks&) = delete;

  // Looks when steps are known, at the latest after a minute, and then every minute until stop().
  void start();
  void stop();
  // Looks at the next steps, unless it looks already or has not begun.
  void look_now();
  bool looking() const { return looking_; }

 private:
  void wait_for_steps();
  void begin();
  void end();

  Timer timer_;
  Hooks hooks_;
  bool looking_ = false;
  int waited_ = 0;  // seconds
};

}  // namespace xpurun::launcher
