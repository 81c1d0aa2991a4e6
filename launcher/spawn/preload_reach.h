// Why LD_PRELOAD cannot reach a program, judged by its file: statically linked, set-user-id, another word
// size. Such a program is still supervised; run.json holds the reason.
#pragma once

#include <string>

namespace xpurun::launcher {

// Empty if LD_PRELOAD works. A script is judged by its own file; its interpreter is checked when it runs.
std::string preload_obstacle(const std::string& program);

}  // namespace xpurun::launcher
