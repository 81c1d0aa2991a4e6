// The environment of the command: ours, plus one variable of ours and one LD_PRELOAD entry before the others.
#pragma once

#include <string>
#include <vector>

namespace xpurun::launcher {

// Our own environment as NAME=VALUE.
std::vector<std::string> current_environment();

// Prepends `library` to LD_PRELOAD. Another entry of the same library is dropped.
std::vector<std::string> with_preload(std::vector<std::string> env, const std::string& library);
std::vector<std::string> with_variable(std::vector<std::string> env, const std::string& name,
                                       const std::string& value);

}  // namespace xpurun::launcher
