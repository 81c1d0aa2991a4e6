// The output of `xpurun replay` for people. Pure.
#pragma once

#include "common/model/speed/replay.h"

#include <string>

namespace xpurun::launcher {

std::string replay_text(const model::Replay& replay, size_t columns);

}  // namespace xpurun::launcher
