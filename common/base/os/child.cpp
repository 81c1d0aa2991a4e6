#include "common/base/os/child.h"

#include <sys/prctl.h>
#include <unistd.h>

namespace xpurun::base {

void end_with_parent(Pid parent, int signal, int status) {
  ::prctl(PR_SET_PDEATHSIG, signal);
  // The parent may have ended before prctl(); then no signal comes.
  if (::getppid() != parent) {
    ::_exit(status);
  }
}

Result<Pid> fork_child(ChildLife life, const std::function<int()>& body) {
  const Pid parent = ::getpid();
  const Pid pid = ::fork();
  if (pid < 0) {
    return fail_errno("cannot fork");
  }
  if (pid == 0) {
    if (life == ChildLife::ends_with_parent) {
      end_with_parent(parent);
    }
    // _exit(): exit handlers and the content of stdio buffers belong to the parent.
    ::_exit(body());
  }
  return pid;
}

}  // namespace xpurun::base
