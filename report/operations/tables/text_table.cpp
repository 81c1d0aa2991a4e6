#include "report/operations/tables/text_table.h"

#include <fmt/format.h>

namespace xpurun::report {

std::string short_number(double value) {
  if (value < 0) {
    return "";
  }
  const int decimals = value >= 99.95     ? 0
                       : value >= 9.995   ? 1
                       : value >= 0.9995  ? 2
                       : value >= 0.09995 ? 3
                                          : 4;
  return value == 0 ? "0" : fmt::format("{:.{}f}", value, decimals);
}

std::string ms_cell(double seconds) {
  return short_number(seconds * 1e3);
}

std::string percent_cell(double share) {
  return share < 0 ? "" : fmt::format("{:.1f}", share * 100);
}

}  // namespace xpurun::report
