#include "preload/timing/runtime.h"

#include "preload/nccl_profiler/profiler.h"
#include "preload/run_env.h"
#include "preload/supervisor_link.h"
#include "preload/timing/attach.h"
#include "preload/timing/hook.h"
#include "preload/timing/poller.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

// What pthread_atfork(3) is in glibc: a call of this function, statically linked into its user. A strong
// reference would keep programs of other C libraries from starting, which lack it ("symbol not found").
// Timing runs under glibc only.
extern "C" __attribute__((weak)) int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(),
                                                       void* dso);
extern "C" __attribute__((visibility("hidden"))) void* __dso_handle;

namespace xpurun::preload {

constinit State g_state;
__thread uint32_t t_inside = 0;

namespace {

enum class Phase : uint32_t { disabled, idle, starting, started };

RunEnv g_run;
constinit std::atomic<Phase> g_phase{Phase::disabled};
constinit std::atomic<bool> g_stopped{false};
constinit std::atomic<uint32_t> g_times_off{0};

// A forked child owns neither the poller nor the GPU context; the segment is its parent's.
void after_fork_in_child() {
  if (g_phase.load() == Phase::started || g_phase.load() == Phase::starting) {
    g_stopped.store(true);
    g_state.level.store(wire::Level::off);
    set_all_hooks(false);
    forget_profiler();
  }
}

void at_exit() {
  if (!g_stopped.load()) {
    finish_polling();
    stop_timing(wire::OffReason::process_end);
  }
}

}  // namespace

void prepare_timing(const RunEnv& run) {
  g_run = run;
  g_phase.store(Phase::idle);
}

void start_timing() {
  Phase expected = Phase::idle;
  if (!g_phase.compare_exchange_strong(expected, Phase::starting)) {
    return;
  }
  const int saved_errno = errno;
  wire::Segment* segment = attach_segment(g_run.socket);
  if (segment != nullptr) {
    segment->header.pid.store(getpid());
    segment->header.attached_ns.store(monotonic_ns());
    segment->header.state.store(static_cast<uint32_t>(wire::RankState::attached));
    g_state.segment.store(segment);
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

void set_level(wire::Level level) {
  if (g_stopped.load() || level > wire::Level::full || level == g_state.level.load()) {
    return;
  }
  if (level == wire::Level::off) {
    g_times_off.fetch_add(1);
  }
  g_state.level.store(level);
  segment()->header.level.store(static_cast<uint32_t>(level));
  set_all_hooks(level != wire::Level::off);
}

uint32_t times_switched_off() {
  return g_times_off.load(std::memory_order_relaxed);
}

void stop_timing(wire::OffReason reason) {
  if (g_stopped.exchange(true)) {
    return;
  }
  g_times_off.fetch_add(1);
  g_state.level.store(wire::Level::off);
  set_all_hooks(false);
  if (wire::Segment* shared = segment()) {
    shared->header.off_reason.store(static_cast<uint32_t>(reason));
    shared->header.level.store(0);
    shared->header.state.store(static_cast<uint32_t>(wire::RankState::off));
  }
}

}  // namespace xpurun::preload
