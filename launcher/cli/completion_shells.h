// The scripts of the single shells, each in a file of its own. For completion.cpp only.
#pragma once

#include <string>

namespace xpurun::launcher {

std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

}  // namespace xpurun::launcher
