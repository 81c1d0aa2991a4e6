#include "launcher/storage/disk_watch.h"

namespace xpurun::launcher {

namespace {
constexpr double kBetweenS = 0.25;
}

void DiskWatch::start(double patience_s, std::function<void()> stalled) {
  if (started_) {
    return;
  }
  started_ = true;
  patience_s_ = patience_s;
  stalled_ = std::move(stalled);
  timer_.after(kBetweenS, [this] { ask(); });
}

void DiskWatch::ask() {
  storage_.probe(probe_);
  storage_.when_written(patience_s_, [this](Written how) {
    if (how == Written::stalled) {
      stalled_();
    } else {
      timer_.after(kBetweenS, [this] { ask(); });
    }
  });
}

}  // namespace xpurun::launcher
