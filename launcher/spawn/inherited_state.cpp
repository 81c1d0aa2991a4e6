#include "launcher/spawn/inherited_state.h"

namespace xpurun::launcher {

InheritedState::InheritedState() {
  ::sigaction(SIGPIPE, nullptr, &pipe_);
  ::sigaction(SIGXFSZ, nullptr, &file_size_);
  if (::getrlimit(RLIMIT_NOFILE, &open_files_) != 0) {
    open_files_ = {RLIM_INFINITY, RLIM_INFINITY};
  }
}

void InheritedState::change_for_supervisor() const {
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, nullptr);
  ::sigaction(SIGXFSZ, &ignore, nullptr);
  if (open_files_.rlim_cur < open_files_.rlim_max) {
    const rlimit raised{open_files_.rlim_max, open_files_.rlim_max};
    (void)::setrlimit(RLIMIT_NOFILE, &raised);
  }
}

void InheritedState::restore() const {
  ::sigaction(SIGPIPE, &pipe_, nullptr);
  ::sigaction(SIGXFSZ, &file_size_, nullptr);
  if (open_files_.rlim_cur < open_files_.rlim_max) {
    (void)::setrlimit(RLIMIT_NOFILE, &open_files_);
  }
}

}  // namespace xpurun::launcher
