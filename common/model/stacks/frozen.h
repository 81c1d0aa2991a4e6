// Whether a thread stands still because its control group is frozen, by the kernel function it sleeps in.
#pragma once

#include <string_view>

namespace xpurun::model {

// Of the first version of the control groups (the freezer), also of a host that goes to sleep.
inline constexpr std::string_view kRefrigerator = "__refrigerator";

constexpr bool is_frozen(std::string_view wchan) {
  return wchan == kRefrigerator || wchan == "do_freezer_trap";
}

}  // namespace xpurun::model
