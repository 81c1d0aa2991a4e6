// How many golden texts this program wrote instead of comparing them; main.cpp tells Meson of it.
#pragma once

namespace xpurun::testing {

inline int accepted_goldens = 0;

}  // namespace xpurun::testing
