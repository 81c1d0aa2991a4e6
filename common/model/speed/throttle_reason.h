// ThrottleReason: why the clock of a GPU is below its maximum, as NVML tells. The only list of the names.
#pragma once

#include "common/model/names.h"

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace xpurun::model {

// nvml.h, nvmlClocksEventReason*: bit i is the reason with the number i.
enum class ThrottleReason {
  idle,
  application_clocks,
  power_cap,
  hardware_slowdown,
  sync_boost,
  thermal,
  hardware_thermal,
  power_brake,
  display_clocks,
};
template <>
inline constexpr std::array<std::string_view, 9> kNames<ThrottleReason> = {
    "idle",    "application_clocks", "power_cap",   "hardware_slowdown", "sync_boost",
    "thermal", "hardware_thermal",   "power_brake", "display_clocks"};
inline constexpr size_t kThrottleReasons = kNames<ThrottleReason>.size();

// An order that does not depend on the numbers.
struct ByName {
  constexpr bool operator()(ThrottleReason a, ThrottleReason b) const { return name_of(a) < name_of(b); }
};

// Whether the reason lowers the clock of a GPU that has work to do. Idle GPUs, and clocks that were asked
// for, are no throttling.
constexpr bool is_throttling(ThrottleReason reason) {
  switch (reason) {
    case ThrottleReason::power_cap:
    case ThrottleReason::hardware_slowdown:
    case ThrottleReason::thermal:
    case ThrottleReason::hardware_thermal:
    case ThrottleReason::power_brake:
      return true;
    case ThrottleReason::idle:
    case ThrottleReason::application_clocks:
    case ThrottleReason::sync_boost:
    case ThrottleReason::display_clocks:
      break;
  }
  return false;
}

// Bits of a later NVML are left out.
inline std::vector<ThrottleReason> throttle_reasons_of(uint64_t nvml_bits) {
  std::vector<ThrottleReason> out;
  for (size_t i = 0; i < kThrottleReasons; ++i) {
    if ((nvml_bits >> i & 1) != 0) {
      out.push_back(static_cast<ThrottleReason>(i));
    }
  }
  return out;
}

// The part of the readings of a GPU that had this reason.
struct ThrottleShare {
  ThrottleReason reason = ThrottleReason::idle;
  double share = 0;

  bool operator==(const ThrottleShare&) const = default;
};

}  // namespace xpurun::model
