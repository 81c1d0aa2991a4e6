#include "preload/start.h"

#include "preload/attach.h"
#include "preload/capture/capture_thread.h"
#include "preload/core/clock.h"
#include "preload/core/state.h"
#include "preload/hooks/hook.h"
#include "preload/nccl_profiler/profiler.h"
#include "preload/poll/poller.h"
#include "preload/process/run_env.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

// glibc's pthread_atfork(3) calls this function and is statically linked into its user. A strong reference
// would keep programs with other C libraries, which lack the function, from starting ("symbol not found").
// Timing runs only under glibc.
extern "C" __attribute__((weak)) int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(),
                                                       void* dso);
extern "C" __attribute__((visibility("hidden"))) void* __dso_handle;

namespace xpurun::preload {

namespace {

enum class Phase : uint32_t { disabled, idle, starting, started };

RunEnv g_run;
constinit std::atomic<Phase> g_phase{Phase::disabled};

// A forked child has neither the poller's thread nor a usable CUDA context (CUDA does not support fork after
// initialisation), and the segment belongs to the parent.
void after_fork_in_child() {
  if (g_phase.load() == Phase::started || g_phase.load() == Phase::starting) {
    stop_timing_after_fork();
    forget_profiler();
  }
}

// Exit handlers run before the destructors of libraries, in which CUDA is torn down.
void at_exit() {
  if (!has_stopped()) {
    finish_polling();
    end_capture();
    stop_timing(wire::OffReason::process_end);
  }
}

// Asks the supervisor for the segment and starts the poller, once per process. A second thread does not wait
// in the meantime: its calls pass through untimed.
void start_timing() {
  Phase expected = Phase::idle;
  if (!g_phase.compare_exchange_strong(expected, Phase::starting)) {
    return;
  }
  const int saved_errno = errno;
  wire::Segment* segment = attach_segment(g_run.socket);
  if (segment != nullptr) {
    segment->header.pid.store(getpid());
    segment->header.attached_ns.store(now_ns());
    segment->header.state.store(static_cast<uint32_t>(wire::RankState::attached));
    // The segment before the level: a thread that sees timing on uses the segment at once.
    g_state.segment.store(segment);
    g_state.untimed.store(segment->header.to_rank.untimed.load());
    set_level(static_cast<wire::Level>(segment->header.to_rank.level.load()));
    __register_atfork(nullptr, nullptr, after_fork_in_child, &__dso_handle);
    if (start_poller()) {
      atexit(at_exit);
    } else {
      stop_timing(wire::OffReason::no_thread);
    }
  }
  g_phase.store(Phase::started);
  errno = saved_errno;
}

}  // namespace

void prepare_timing(const RunEnv& run) {
  g_run = run;
  prepare_captures(run.socket);
  register_actions({start_timing, set_all_hooks, follow_capture});
  g_phase.store(Phase::idle);
}

}  // namespace xpurun::preload
