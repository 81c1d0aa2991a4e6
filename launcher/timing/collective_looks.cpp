#include "launcher/timing/collective_looks.h"

#include <algorithm>

namespace xpurun::launcher {

namespace {

// With 13 collectives in steps of 17 ms, ten steps of a minute cost 0.01 % of the job's time.
constexpr double kSteps = 10;
constexpr double kShortest = 0.2;
constexpr double kLongest = 5;
constexpr double kUnknown = 1;  // as long as the steps are not known
constexpr double kPollS = 1;
constexpr int kMostPolls = 60;
constexpr int64_t kEveryNs = 60'000'000'000;

}  // namespace

double look_seconds(double step_s) {
  return step_s < 0 ? kUnknown : std::clamp(kSteps * step_s, kShortest, kLongest);
}

void CollectiveLooks::start() {
  if (!timer_.running()) {
    timer_.after(kPollS, [this] { wait_for_steps(); });
  }
}

void CollectiveLooks::wait_for_steps() {
  if (hooks_.step_s() >= 0 || ++waited_ >= kMostPolls) {
    begin();
  } else {
    timer_.after(kPollS, [this] { wait_for_steps(); });
  }
}

void CollectiveLooks::stop() {
  timer_.stop();
  looking_ = false;
}

void CollectiveLooks::look_now() {
  if (timer_.running() && !looking_) {
    timer_.stop();
    begin();
  }
}

void CollectiveLooks::begin() {
  looking_ = true;
  hooks_.changed();
  timer_.after(look_seconds(hooks_.step_s()), [this] { end(); });
}

void CollectiveLooks::end() {
  looking_ = false;
  hooks_.changed();
  timer_.after(base::ns_to_s(kEveryNs - hooks_.wall_ns() % kEveryNs), [this] { begin(); });
}

}  // namespace xpurun::launcher
