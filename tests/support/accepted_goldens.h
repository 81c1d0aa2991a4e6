// Number of golden texts that this program wrote instead of comparing; main.cpp reports it to Meson.
#pragma once

namespace xpurun::testing {

inline int accepted_goldens = 0;

}  // namespace xpurun::testing
