// The constructor: decides whether this process is worth watching over and if so makes itself known. It never
// fails, prints nothing, starts no thread and leaves no descriptor open.

#include "common/wire/logs.h"
#include "preload/crash_handler.h"
#include "preload/disposition.h"
#include "preload/host_runtime.h"
#include "preload/log_redirect.h"
#include "preload/process_kind.h"
#include "preload/run_env.h"
#include "preload/supervisor_link.h"
#include "preload/timing/runtime.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace xpurun::preload {

namespace {

__attribute__((constructor)) void start() {
  if (!has_glibc()) {
    return;
  }
  const int saved_errno = errno;
  const RunEnv run = parse_run_env(getenv(wire::kRunEnv));
  // PID 1 of a namespace ignores signals under the default disposition; a handler would change that.
  if (run.supervisor == 0 || getpid() == 1) {
    errno = saved_errno;
    return;
  }
  prepare_timing(run);
  const ProcessKind kind = classify_this_process();
  if (kind != ProcessKind::other) {
    redirect_output(getenv(wire::kLogsEnv));
    // Without Yama EINVAL, and then nobody needs to be let in.
    prctl(PR_SET_PTRACER, static_cast<unsigned long>(run.supervisor), 0, 0, 0);
    prepare_crash_handler(run, kind);
    provide_alternate_stack();
    arm();
    send_hello(run.socket, make_notice(wire::NoticeKind::hello));
  }
  errno = saved_errno;
}

}  // namespace

}  // namespace xpurun::preload
