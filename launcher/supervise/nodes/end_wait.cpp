#include "launcher/supervise/nodes/end_wait.h"

#include <utility>

namespace xpurun::launcher {

namespace {

// A rank that waits for a rank that has left fails within milliseconds and ends within about 1 s.
constexpr double kStayS = 3;

}  // namespace

void EndWait::begin() {
  if (!active() && decision_.others_work()) {
    timer_ = loop_.after(kStayS, [this] { end(); });
  }
}

// A round that has begun meanwhile does not prolong the wait: the round has its own end.
void EndWait::look() {
  if (active() && !decision_.others_work()) {
    end();
  }
}

void EndWait::end() {
  loop_.cancel(std::exchange(timer_, 0));
  loop_.after(0, [over = over_] { over(); });
}

}  // namespace xpurun::launcher
