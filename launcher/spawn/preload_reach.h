// Why a program cannot be reached by LD_PRELOAD, judged by its file: statically linked, set-user-id, another
// word size. Such a program is still supervised; the reason stands in run.json.
#pragma once

#include <string>

namespace xpurun::launcher {

// Empty if nothing speaks against it. A script is judged by itself only: its interpreter is looked at once it
// runs.
std::string preload_obstacle(const std::string& program);

}  // namespace xpurun::launcher
