#include "preload/poll/poller.h"

#include "preload/core/clock.h"
#include "preload/core/state.h"
#include "preload/core/vendor.h"
#include "preload/cuda/cuda_api.h"
#include "preload/cuda/cuda_env.h"
#include "preload/cuda/gpu_identity.h"
#include "preload/nccl/ledger.h"
#include "preload/nccl_profiler/profiler.h"
#include "preload/poll/device_times.h"
#include "preload/poll/event_writer.h"
#include "preload/poll/work_in_flight.h"
#include "preload/record/budget.h"
#include "preload/record/event_guard.h"
#include "preload/record/own_cost.h"
#include "preload/record/sampling.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace xpurun::preload {

namespace {

// Time between two rounds. Event queries take CUDA locks that the program's threads also need, so rounds are
// rare. Nothing is lost in between, because the events keep the times.
constexpr uint64_t kLightNs = 50 * kNsPerMs;
constexpr uint64_t kFullNs = 10 * kNsPerMs;
// Level full without timing events: the end of the work is known to one round.
constexpr uint64_t kSharedQueueNs = 2 * kNsPerMs;
constexpr uint64_t kOffNs = 250 * kNsPerMs;
// Interval for summing the calls. No reader needs the sum sooner, and no hooked call pays for it.
constexpr uint64_t kCountNs = 1000 * kNsPerMs;
constexpr uint64_t kFinishNs = 500 * kNsPerMs;
constexpr int kNice = 10;
// CUPTI runs on the stack during a capture. Untouched pages cost nothing.
constexpr size_t kStackBytes = 1024 * 1024;

constexpr uint32_t kLightEvents = 512;
// Level light, once a sample found no room: the host is many steps ahead of the GPU.
constexpr uint32_t kMoreEvents = 2048;
// Level light begins with few samples and takes more if they are cheap; level full begins with all calls.
constexpr uint32_t kFirstPeriod = 64;
// Level full may cost this many times the budget.
constexpr uint64_t kFullBudget = 5;

enum class Phase : uint32_t { none, running, leaving, left };

constinit std::atomic<Phase> g_phase{Phase::none};
constinit std::atomic<uint32_t> g_wake{0};
constinit StreamQueues g_queues;

wire::SegmentHeader& header() {
  return segment()->header;
}

// The thread's state between two rounds.
class Poller {
 public:
  void configure();
  void run();

 private:
  void prepare_cuda();
  void fill_pools();
  void fill_pool(int device, uint32_t wanted, bool is_first);
  void count_events();
  void count_calls(uint64_t now);
  void keep_to_the_budget(uint64_t now);
  void follow_the_level();
  bool ignores_the_budget();
  void keep_books(uint64_t now);
  uint64_t pause_ns() const;
  void rest() const;

  DeviceTimes times_;
  WorkInFlight work_{times_, g_queues};
  Budget light_budget_{kFirstPeriod};
  Budget full_budget_{1};
  uint64_t counted_ns_ = 0;
  uint32_t round_ = 1;  // light: pauses last round_ * kLightNs
  bool is_prepared_ = false;
  bool shared_queue_ = false;
};

constinit Poller g_poller;

void Poller::configure() {
  shared_queue_ = streams_share_a_queue();
  times_.configure();
}

void Poller::prepare_cuda() {
  if (is_prepared_ || !is_timing_on() || !load_cuda_api()) {
    return;
  }
  is_prepared_ = true;
  // While any thread captures a stream in global mode, calls such as cudaEventQuery fail in every other
  // thread and invalidate the capture, unless that thread has opted out with the relaxed mode.
  int mode = kCaptureModeRelaxed;
  cuda_api().exchange_capture_mode(&mode);
  int version = 0;
  if (cuda_api().runtime_version(&version) == 0) {
    header().runtime_version.store(static_cast<uint32_t>(version));
  }
}

void Poller::fill_pool(int device, uint32_t wanted, bool is_first) {
  if (cuda_api().set_device(device) != 0) {
    forget_cuda_error();
  }
  // With one hardware queue for all streams (CUDA_DEVICE_MAX_CONNECTIONS=1), no timing events are recorded,
  // so there is nothing to calibrate.
  if (is_first && !shared_queue_) {
    times_.set_up(device);
  }
  event_pool(device)->fill(wanted);
  describe_device(header(), device);
  header().state.store(static_cast<uint32_t>(wire::RankState::timing));
}

void Poller::fill_pools() {
  if (!is_prepared_) {
    return;
  }
  const wire::Health& health = header().health;
  const bool had_no_room = health.stream_full.load() + health.no_event.load() > 0;
  const uint32_t wanted = level() == wire::Level::full ? kPoolEvents
                          : had_no_room                ? kMoreEvents
                                                       : kLightEvents;
  for (int device = 0; device < kMaxDevices; ++device) {
    const EventPool& pool = *event_pool(device);
    const bool is_first = pool.state() == EventPool::State::wanted;
    const bool is_ready = pool.state() == EventPool::State::ready;
    if ((is_first || is_ready) && pool.size() < wanted) {
      fill_pool(device, wanted, is_first);
    } else if (is_ready && is_timing_on()) {
      times_.tick(device);
      const uint64_t overhead_ns = times_.new_overhead_ns(device);
      if (overhead_ns != 0 && header().device.load() == device) {
        header().event_overhead_ns.store(overhead_ns);
        header().event_overhead_is_off.store(times_.corrects() ? 1 : 0);
      }
    }
  }
}

void Poller::count_events() {
  uint32_t made = 0;
  for (int device = 0; device < kMaxDevices; ++device) {
    made += event_pool(device)->size();
  }
  header().events_made.store(made);
  header().events_in_flight.store(events_in_flight());
}

void Poller::count_calls(uint64_t now) {
  if (now - counted_ns_ < kCountNs) {
    return;
  }
  counted_ns_ = now;
  uint64_t calls = 0;
  uint64_t launches = 0;
  for (uint32_t i = 0; i < wire::kOpSlots; ++i) {
    const wire::OpEntry& op = segment()->ops[i];
    if (op.state.load(std::memory_order_acquire) != static_cast<uint32_t>(wire::SlotState::ready)) {
      continue;
    }
    const uint64_t called = wire::totals_of(*segment(), i).calls;
    calls += called + op.captured.load(std::memory_order_relaxed);
    launches += op.key.op_class == static_cast<uint8_t>(wire::OpClass::kernel) ? called : 0;
  }
  header().health.hooked_calls.store(calls);
  header().health.kernel_launches.store(launches);
}

// The supervisor limits the number of such calls. Their cost says nothing of the usual sampling.
bool Poller::ignores_the_budget() {
  const auto every = static_cast<wire::Every>(header().to_rank.every.load(std::memory_order_relaxed));
  if (every != g_state.every.load(std::memory_order_relaxed)) {
    g_state.every.store(every);
    light_budget_.restart();
    full_budget_.restart();
  }
  if (every == wire::Every::call) {
    set_periods({.sample = 1, .mark = 1, .round = 1});
    round_ = 1;
    header().period.store(1);
  }
  return every != wire::Every::none;
}

void Poller::keep_to_the_budget(uint64_t now) {
  if (ignores_the_budget()) {
    return;
  }
  const bool full = level() == wire::Level::full;
  Budget& budget = full ? full_budget_ : light_budget_;
  const uint64_t ppm = header().to_rank.budget_ppm.load();
  const Periods periods = budget.update(now, spent(), full ? ppm * kFullBudget : ppm);
  set_periods(periods);
  round_ = periods.round;
  header().period.store(periods.sample);
}

void Poller::follow_the_level() {
  const auto wanted = static_cast<wire::Level>(header().to_rank.level.load(std::memory_order_relaxed));
  if (wanted == level()) {
    return;
  }
  if (wanted == wire::Level::off) {
    // Calls are not seen while the level is off, and NCCL's counts are trusted only if all were seen.
    mark_calls_missed(*segment());
  }
  light_budget_.restart();
  full_budget_.restart();
  if (wanted != wire::Level::off) {
    // While the level is still off: earlier point-to-point groups are forgotten.
    keep_profiler_books();
  }
  set_level(wanted);
}

void Poller::keep_books(uint64_t now) {
  wire::Health& health = header().health;
  timespec cpu{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  health.poller_cpu_ns.store(static_cast<uint64_t>(cpu.tv_sec) * kNsPerSecond +
                             static_cast<uint64_t>(cpu.tv_nsec));
  health.heartbeat_ns.store(now);
  add(health.polls, 1);
  follow_the_level();
  g_state.host_events.store(header().to_rank.host_events.load(std::memory_order_relaxed) != 0);
  g_state.untimed.store(header().to_rank.untimed.load(std::memory_order_relaxed));
  follow_capture_request(header().to_rank.capture.load(std::memory_order_relaxed));
  keep_profiler_books();
  count_events();
  if (is_timing_on()) {
    keep_to_the_budget(now);
    count_calls(now);
  }
}

uint64_t Poller::pause_ns() const {
  if (!is_timing_on()) {
    return kOffNs;
  }
  const uint32_t us = header().to_rank.poll_us.load(std::memory_order_relaxed);
  if (us != 0) {
    return us * (kNsPerMs / 1000);
  }
  if (level() == wire::Level::light) {
    return kLightNs * round_;
  }
  return shared_queue_ ? kSharedQueueNs : kFullNs;
}

// Sleeps until the next round is due or the process ends.
void Poller::rest() const {
  const uint64_t pause = pause_ns();
  const timespec time{static_cast<time_t>(pause / kNsPerSecond), static_cast<long>(pause % kNsPerSecond)};
  // A futex instead of a condition variable: finish_polling() runs at the exit of the process, where libc's
  // locks may be held by threads that no longer run.
  syscall(SYS_futex, &g_wake, FUTEX_WAIT_PRIVATE, 0, &time, nullptr, 0);
}

void Poller::run() {
  while (g_phase.load() == Phase::running) {
    prepare_cuda();
    fill_pools();
    if (is_prepared_ && !work_.poll()) {
      stop_timing(wire::OffReason::cuda_errors);
      break;
    }
    write_host_spans();
    work_.take_profiled();
    keep_books(now_ns());
    rest();
  }
  // Without this last round, the events and counts of the last calls would be lost.
  if (g_phase.load() == Phase::leaving && is_prepared_) {
    work_.poll();
    write_host_spans();
    work_.take_profiled();
    counted_ns_ = 0;
    count_events();
    count_calls(now_ns());
  }
}

void* poll_for_ever(void*) {
  prctl(PR_SET_NAME, "xpurun-poll", 0, 0, 0);
  // On Linux a nice value belongs to a thread, contrary to POSIX.
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice);
  g_poller.run();
  g_phase.store(Phase::left);
  return nullptr;
}

}  // namespace

bool start_poller() {
  g_poller.configure();
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) {
    return false;
  }
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  // A new thread inherits the mask. With every signal blocked, none of the program's signals is delivered
  // here.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  g_phase.store(Phase::running);
  pthread_t thread{};
  const bool started = pthread_create(&thread, &attributes, poll_for_ever, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return started;
}

void finish_polling() {
  Phase expected = Phase::running;
  if (!g_phase.compare_exchange_strong(expected, Phase::leaving)) {
    return;
  }
  const uint64_t deadline = now_ns() + kFinishNs;
  g_wake.store(1);
  syscall(SYS_futex, &g_wake, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  // Bounded: the poller may be stuck in a CUDA call that never returns, and the program's exit must not wait
  // for it.
  while (g_phase.load() != Phase::left && now_ns() < deadline) {
    sleep_until(now_ns() + kNsPerMs / 5);
  }
}

}  // namespace xpurun::preload
