#include "launcher/output/status_line.h"

namespace xpurun::launcher {

namespace {
constexpr double kFirstDrawS = 1;
// Rare enough to cost nothing, often enough that seconds are seen to pass.
constexpr double kRedrawS = 0.5;
}  // namespace

void StatusLine::start() {
  timer_.after(kFirstDrawS, [this] { draw(); });
}

void StatusLine::draw() {
  if (footer_.usable()) {
    if (const std::string text = text_(footer_.columns()); !text.empty()) {
      footer_.show(text);
    }
  }
  timer_.after(kRedrawS, [this] { draw(); });
}

void StatusLine::stop() {
  timer_.stop();
  footer_.hide();
}

}  // namespace xpurun::launcher
