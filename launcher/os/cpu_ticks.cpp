#include "launcher/os/cpu_ticks.h"

#include "common/base/strings.h"

#include <array>
#include <charconv>
#include <optional>

namespace xpurun::launcher {

namespace {

// Columns of the line "cpu", proc(5). Time of guests is in `user` and `nice` already.
enum Column { user, nice, system, idle, iowait, irq, softirq, steal, columns };
using Columns = std::array<uint64_t, columns>;

std::optional<Columns> columns_of(std::string_view numbers) {
  Columns out{};
  const char* at = numbers.data();
  const char* const end = at + numbers.size();
  for (uint64_t& value : out) {
    while (at != end && *at == ' ') {
      ++at;
    }
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc()) {
      return std::nullopt;
    }
    at = next;
  }
  return out;
}

}  // namespace

base::Result<CpuTicks> cpu_ticks_in(std::string_view stat) {
  constexpr std::string_view kSum = "cpu ";
  CpuTicks out;
  std::optional<Columns> sum;
  for (const std::string_view line : base::split(stat, '\n')) {
    if (line.starts_with(kSum)) {
      sum = columns_of(line.substr(kSum.size()));
    } else if (line.starts_with("cpu")) {
      ++out.cpus;
    }
  }
  if (!sum) {
    return base::fail("/proc/stat has no line \"cpu\" of 8 numbers");
  }
  for (const Column busy : {user, nice, system, irq, softirq, steal}) {
    out.busy += (*sum)[busy];
  }
  out.stolen = (*sum)[steal];
  return out;
}

}  // namespace xpurun::launcher
