// The constructor: decides whether the supervisor needs to know this process, and announces the process if
// so. It never fails, prints nothing, starts no thread and leaves no descriptor open.

#include "common/wire/logs.h"
#include "preload/heap/entries.h"
#include "preload/heap/heap.h"
#include "preload/marks/marks.h"
#include "preload/mpi/ledger.h"
#include "preload/process/crash_handler.h"
#include "preload/process/disposition.h"
#include "preload/process/host_runtime.h"
#include "preload/process/log_redirect.h"
#include "preload/process/process_kind.h"
#include "preload/process/python_bootstrap.h"
#include "preload/process/rank_identity.h"
#include "preload/process/run_env.h"
#include "preload/process/supervisor_link.h"
#include "preload/start.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace xpurun::preload {

namespace {

// glibc passes main()'s arguments to constructors. Another C library may not: there the function returns
// before it uses them.
__attribute__((constructor)) void start(int argc, char** argv) {
  if (!has_glibc()) {
    return;
  }
  const int saved_errno = errno;
  find_heap_functions();
  const RunEnv run = parse_run_env(getenv(wire::kRunEnv));
  // The kernel drops signals with default disposition to PID 1 of a namespace. A handler would change that.
  if (run.supervisor == 0 || getpid() == 1) {
    errno = saved_errno;
    return;
  }
  prepare_timing(run);
  prepare_marks(run.socket);
  prepare_mpi(run);
  const ProcessKind kind = classify_this_process();
  if (kind != ProcessKind::other) {
    if (has_rank_environment()) {
      mark_rank();
    }
    redirect_output(getenv(wire::kLogsEnv));
    // Yama's scope 1 lets only ancestors trace. This adds the supervisor, in case the process was
    // re-parented. EINVAL without Yama.
    prctl(PR_SET_PTRACER, static_cast<unsigned long>(run.supervisor), 0, 0, 0);
    prepare_crash_handler(run, kind);
    provide_alternate_stack();
    arm();
    if (kind == ProcessKind::python) {
      offer_python_bootstrap(argc, argv);
    }
    start_heap(run, kind);
    // Last, because the supervisor may examine the process as soon as the notice has arrived.
    send_hello(run.socket, make_notice(wire::NoticeKind::hello));
  }
  errno = saved_errno;
}

}  // namespace

}  // namespace xpurun::preload
