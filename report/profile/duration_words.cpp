#include "report/profile/duration_words.h"

#include <fmt/format.h>

namespace xpurun::report {

std::string work_duration(double seconds) {
  const double us = seconds * 1e6;
  return us < 1000  ? fmt::format("{:.1f} us", us)
         : us < 1e6 ? fmt::format("{:.2f} ms", us / 1e3)
                    : fmt::format("{:.2f} s", us / 1e6);
}

}  // namespace xpurun::report
