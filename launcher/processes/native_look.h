// NativeLook: where the main thread of a rank without Python was at one moment (xpurun-stackdump --look).
#pragma once

#include "common/model/stack_snapshot.h"

#include <vector>

namespace xpurun::launcher {

// Whether the thread circles takes up to a second more.
enum class LookFor { circles, stack };

struct NativeLook {
  std::vector<model::Frame> frames;  // innermost first: pc, module and function; empty: not readable
  bool circles = false;              // see stackdump/ptrace/loop_watch.h
  bool given_up = false;             // a dump began meanwhile: no frames, and no failure
};

}  // namespace xpurun::launcher
