#include "common/base/output/progress.h"

#include "common/base/os/io.h"
#include "common/base/output/terminal.h"
#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace xpurun::base {

namespace {

constexpr double kPatienceS = 1;
constexpr double kRedrawS = 0.1;
constexpr size_t kBarWidth = 20;

int g_fd = -1;  // descriptor for progress lines; -1: none

}  // namespace

void allow_progress(int fd) {
  const char* term = std::getenv("TERM");
  const bool understood = term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
  g_fd = understood && is_terminal(fd) ? fd : -1;
}

std::string progress_text(std::string_view what, size_t done, size_t total, double seconds, size_t columns) {
  const std::string time = human_duration(seconds);
  std::string out = fmt::format("{}, {}", what, time);
  if (total != 0) {
    const size_t filled = std::min(done, total) * kBarWidth / total;
    const std::string with_bar = fmt::format("{} [{:#<{}}{:.<{}}] {}/{}, {}", what, "", filled, "",
                                             kBarWidth - filled, done, total, time);
    const std::string without = fmt::format("{} {}/{}", what, done, total);
    out = display_width(with_bar) <= columns ? with_bar : without;
  }
  return display_width(out) <= columns ? out : std::string();
}

Progress::Progress(std::string_view what, size_t total, Clock clock)
    : what_(what),
      total_(total),
      clock_(clock),
      started_(clock_()),
      next_draw_(g_fd < 0 ? std::numeric_limits<MonoNs>::max() : started_ + s_to_ns(kPatienceS)) {}

Progress::~Progress() {
  if (shown_) {
    (void)write_all(g_fd, "\r\x1b[K");
  }
}

void Progress::advance(size_t n) {
  done_ += n;
  if (g_fd >= 0) {
    if (const MonoNs now = clock_(); now >= next_draw_) {
      draw(now);
    }
  }
}

void Progress::draw(MonoNs now) {
  next_draw_ = now + s_to_ns(kRedrawS);
  const size_t columns = terminal_columns(g_fd);
  const std::string text = progress_text(what_, done_, total_, ns_to_s(now - started_), columns - 1);
  if (!text.empty()) {
    shown_ = true;
    (void)write_all(g_fd, "\r" + text + "\x1b[K");
  }
}

}  // namespace xpurun::base
