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

uint64_t busy_of(const Columns& line) {
  uint64_t out = 0;
  for (const Column busy : {user, nice, system, irq, softirq, steal}) {
    out += line[busy];
  }
  return out;
}

}  // namespace

std::map<int, uint64_t> busy_ticks_in(std::string_view stat) {
  std::map<int, uint64_t> out;
  for (const std::string_view line : base::split(stat, '\n')) {
    const size_t blank = line.find(' ');
    if (!line.starts_with("cpu") || blank == std::string_view::npos) {
      continue;
    }
    const auto cpu = base::parse_int(line.substr(3, blank - 3));
    const auto columns_read = columns_of(line.substr(blank));
    if (cpu && *cpu >= 0 && *cpu <= INT32_MAX && columns_read) {
      out[static_cast<int>(*cpu)] = busy_of(*columns_read);
    }
  }
  return out;
}

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
  out.busy = busy_of(*sum);
  out.stolen = (*sum)[steal];
  return out;
}

}  // namespace xpurun::launcher
