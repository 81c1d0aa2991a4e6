// Completion scripts for bash, zsh and fish from the tables. After the child's command word, they hand over
// to the shell's own completion of that command. Pure.
#pragma once

#include <string>

namespace xpurun::launcher {

enum class Shell { bash, zsh, fish };

std::string completion_script(Shell shell);

}  // namespace xpurun::launcher
