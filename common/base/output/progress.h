// Progress: a terminal line for work that takes longer than a second. Appears only on a terminal and only
// after allow_progress(); otherwise the cost is one comparison.
//   base::Progress progress("reading", files.size());
//   for (...) { ...; progress.advance(); }
// Thread rule: at most one per process at a time, used by one thread.
#pragma once

#include "common/base/clock.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace xpurun::base {

// Allows progress lines on this descriptor if it is a terminal. The default is none.
void allow_progress(int fd);

class Progress {
 public:
  // Source of the time; tests use a fake clock.
  using Clock = MonoNs (*)();

  // `total` 0: unknown, shows only the time.
  Progress(std::string_view what, size_t total, Clock clock = mono_ns);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance(size_t n = 1);

 private:
  void draw(MonoNs now);

  std::string what_;
  size_t total_;
  Clock clock_;
  size_t done_ = 0;
  MonoNs started_;
  MonoNs next_draw_;
  bool shown_ = false;
};

// "reading [#####...............] 251/1024, 3 s", at most `columns` wide. Pure.
std::string progress_text(std::string_view what, size_t done, size_t total, double seconds, size_t columns);

}  // namespace xpurun::base
