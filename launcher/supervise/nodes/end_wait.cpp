#include "launcher/supervise/nodes/end_wait.h"

namespace xpurun::launcher {

namespace {

// A rank that waits for a rank that has left fails within milliseconds and ends within about 1 s.
constexpr double kStayS = 3;

}  // namespace

void EndWait::begin() {
  if (!active() && decision_.others_work()) {
    timer_.after(kStayS, [this] { end(); });
  }
}

// A round that has begun meanwhile does not prolong the wait: the round has its own end.
void EndWait::look() {
  if (active() && !decision_.others_work()) {
    end();
  }
}

void EndWait::end() {
  timer_.stop();
  loop_.after(0, [over = over_] { over(); });
}

}  // namespace xpurun::launcher
