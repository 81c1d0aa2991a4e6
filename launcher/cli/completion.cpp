#include "launcher/cli/completion.h"

#include "launcher/cli/completion_shells.h"

namespace xpurun::launcher {

std::string completion_script(Shell shell) {
  switch (shell) {
    case Shell::bash:
      return bash_completion();
    case Shell::zsh:
      return zsh_completion();
    case Shell::fish:
      return fish_completion();
  }
  return {};
}

}  // namespace xpurun::launcher
