#include "preload/timing/poller.h"

#include "preload/nccl_profiler/profiler.h"
#include "preload/supervisor_link.h"
#include "preload/timing/budget.h"
#include "preload/timing/calls_collective.h"
#include "preload/timing/cuda_api.h"
#include "preload/timing/event_overhead.h"
#include "preload/timing/event_pool.h"
#include "preload/timing/gpu_clock.h"
#include "preload/timing/gpu_identity.h"
#include "preload/timing/host_span.h"
#include "preload/timing/launch_gap.h"
#include "preload/timing/ledger.h"
#include "preload/timing/stream_queues.h"
#include "preload/timing/timed_call.h"
#include "preload/timing/vendor.h"

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

constexpr uint64_t kNsPerMs = 1'000'000;
// Every look takes locks of CUDA's that the program's threads want as well. Nothing is lost in between: the
// events keep the times.
constexpr uint64_t kLightNs = 50 * kNsPerMs;
constexpr uint64_t kFullNs = 10 * kNsPerMs;
constexpr uint64_t kSharedQueueNs = 2 * kNsPerMs;  // full, where the end is when we notice it
constexpr uint64_t kOffNs = 250 * kNsPerMs;
constexpr uint64_t kCountNs = 1000 * kNsPerMs;
constexpr uint64_t kFinishNs = 20 * kNsPerMs;
constexpr int kNice = 10;

constexpr uint32_t kLightEvents = 512;
// So many unfinished calls of a stream are passed over at once if the last of them has finished.
constexpr uint32_t kAhead = 64;
// Light begins with few samples and takes more if they are cheap; of full, all are expected.
constexpr uint32_t kFirstPeriod = 64;
// How many times the budget full may cost.
constexpr uint64_t kFullBudget = 5;

enum class Phase : uint32_t { none, running, leaving, left };

constinit std::atomic<Phase> g_phase{Phase::none};
constinit StreamQueues g_queues;
GpuClock g_clocks[kMaxDevices];
EventOverhead g_overheads[kMaxDevices];
LaunchGap g_launch_gaps[kMaxDevices];
Budget g_light_budget(kFirstPeriod);
Budget g_full_budget(1);
constinit std::atomic<uint32_t> g_wake{0};
uint64_t g_counted_ns = 0;
bool g_prepared = false;
bool g_shared_queue = false;
bool g_correct = false;
bool g_leave_out_launches = false;

wire::SegmentHeader& header() {
  return segment()->header;
}

void prepare_cuda() {
  if (g_prepared || !is_timing_on() || !load_cuda_api()) {
    return;
  }
  g_prepared = true;
  // A capture in global mode anywhere in the process forbids others what we do here, unless they opt out.
  int mode = kCaptureModeRelaxed;
  cuda_api().exchange_capture_mode(&mode);
  int version = 0;
  if (cuda_api().runtime_version(&version) == 0) {
    header().runtime_version.store(static_cast<uint32_t>(version));
  }
}

void fill_pools() {
  if (!g_prepared) {
    return;
  }
  const uint32_t wanted = level() == wire::Level::full ? kPoolEvents : kLightEvents;
  for (int device = 0; device < kMaxDevices; ++device) {
    EventPool& pool = *event_pool(device);
    const bool first = pool.state() == EventPool::State::wanted;
    const bool ready = pool.state() == EventPool::State::ready;
    if ((first || ready) && pool.size() < wanted) {
      if (cuda_api().set_device(device) != 0) {
        forget_cuda_error();
      }
      if (first && !g_shared_queue) {
        g_clocks[device].set_up();
        g_overheads[device].begin();
        g_launch_gaps[device].set_up(device);
      }
      pool.fill(wanted);
      describe_device(header(), device);
      header().state.store(static_cast<uint32_t>(wire::RankState::timing));
    } else if (ready && is_timing_on()) {
      g_clocks[device].tick();
      if (g_overheads[device].finish() && header().device.load() == device) {
        header().event_overhead_ns.store(g_overheads[device].ns());
        header().event_overhead_is_off.store(g_correct ? 1 : 0);
      }
    }
  }
}

void write_event(const wire::Event& event) {
  wire::SegmentHeader& h = header();
  const uint64_t head = h.ring_head.load(std::memory_order_relaxed);
  if (head - h.ring_tail.load(std::memory_order_acquire) >= wire::kRingSlots) {
    add(h.health.ring_dropped, 1);
    return;
  }
  segment()->ring[head % wire::kRingSlots] = event;
  h.ring_head.store(head + 1, std::memory_order_release);
}

uint32_t to_us(uint64_t from_ns, uint64_t to_ns) {
  const uint64_t us = to_ns > from_ns ? (to_ns - from_ns) / 1000 : 0;
  return us > 0xffffffff ? 0xffffffff : static_cast<uint32_t>(us);
}

// What the events add to the duration of what is between them.
uint64_t own_time_of_events(const Pending& item) {
  const wire::OpKey& key = segment()->ops[item.op].key;
  // Kernels mostly follow each other so closely that it is hidden.
  if (!g_correct || key.op_class == static_cast<uint8_t>(wire::OpClass::kernel)) {
    return 0;
  }
  const uint64_t own = g_overheads[item.device].ns();
  const uint64_t gap = g_launch_gaps[item.device].ns(key);
  return own > gap ? own : gap;
}

// Where the GPU has nothing to do, it passes the start event and then waits for the host, which is still on
// its way to handing over the kernel: that time is not the kernel's. It begins about when the call returns;
// so that is only said of calls that launch one kernel or few.
void leave_out_the_launch(const Pending& item, uint64_t end_ns, wire::Event* event) {
  constexpr uint64_t kClockErrorNs = 10'000;
  // An event behind a kernel that has already ended is passed so soon after the call's return: it blocked.
  constexpr uint64_t kEventNs = 4'000;
  const auto op_class = static_cast<wire::OpClass>(segment()->ops[item.op].key.op_class);
  const bool is_launch = op_class == wire::OpClass::matmul || op_class == wire::OpClass::kernel;
  const uint64_t begin_ns = item.launched_ns + g_launch_gaps[item.device].after_return_ns();
  // Before it was asked to pass the start event it cannot have done so.
  const bool is_plausible =
      event->begin_ns + kClockErrorNs > item.call_ns && end_ns > item.launched_ns + kEventNs;
  if (!is_launch || !is_plausible || !g_clocks[item.device].is_close()) {
    return;
  }
  if (end_ns - begin_ns < event->duration_ns) {
    event->duration_ns = end_ns - begin_ns;
    event->begin_ns = begin_ns;
  }
}

// Begin and duration by the events, or, where they were recorded without timing, by what the host saw.
bool measure(const Pending& item, const StreamQueues::Stream& stream, uint64_t now, wire::Event* event) {
  if (!item.timed) {
    event->source = static_cast<uint8_t>(wire::Source::host_query);
    event->flags = wire::kEventHostBegin;
    event->begin_ns = item.launched_ns > stream.last_end_ns ? item.launched_ns : stream.last_end_ns;
    event->duration_ns = now > event->begin_ns ? now - event->begin_ns : 0;
    return true;
  }
  const EventPool& pool = *event_pool(item.device);
  float ms = 0;
  if (cuda_api().event_elapsed(&ms, pool.start(item.event), pool.stop(item.event)) != 0) {
    forget_cuda_error();
    return false;
  }
  event->source = static_cast<uint8_t>(wire::Source::events);
  event->how = item.how;
  const uint64_t elapsed = ms > 0 ? static_cast<uint64_t>(static_cast<double>(ms) * 1e6) : 0;
  const uint64_t own = own_time_of_events(item);
  event->duration_ns = elapsed - (elapsed < own ? elapsed : own);
  event->begin_ns = g_clocks[item.device].host_time_of(pool.start(item.event));
  // The clocks may be some microseconds apart; milliseconds are a mistake.
  if (event->begin_ns + kNsPerMs < item.call_ns || event->begin_ns > now + kNsPerMs) {
    event->begin_ns = item.call_ns;
    event->flags = wire::kEventHostBegin;
  } else if (g_leave_out_launches) {
    leave_out_the_launch(item, event->begin_ns + elapsed, event);
  }
  return true;
}

void add_to_totals(wire::OpEntry& op, uint64_t duration_ns, uint64_t work) {
  add(op.timed, 1);
  add(op.timed_ns, duration_ns);
  add(op.timed_work, work);
}

void completed(const Pending& item, uint32_t number, StreamQueues::Stream& stream, uint64_t now) {
  wire::Segment& shared = *segment();
  add(header().health.completed, 1);
  if (item.comm != wire::kNoComm) {
    collectives_done(shared.comms[item.comm], item.collective, item.point_to_point, now);
  }
  wire::Event event{};
  if (item.op != kNoOp && measure(item, stream, now, &event)) {
    event.op = item.op;
    event.sequence = item.sequence;
    event.stream = static_cast<uint16_t>(number);
    event.delay_us = to_us(item.call_ns, event.begin_ns);
    add_to_totals(shared.ops[item.op], event.duration_ns, item.work);
    write_event(event);
  }
  stream.last_end_ns = now;
}

// NCCL's times are written by the kernel's channels, so that its launch and end are missing. Kernels by CUPTI
// were 2.7 to 3.4 us longer on an H200, from 1 KB to 1 GB, whatever the protocol.
constexpr uint64_t kAroundChannelsNs = 2850;

// What NCCL itself has timed.
void take_profiled() {
  wire::Segment& shared = *segment();
  ProfiledCollective done{};
  for (uint32_t at = 0; next_profiled(&at, &done);) {
    const Expected& e = done.expected;
    wire::Event event{};
    const bool lacks_ends = g_correct && done.source == wire::Source::nccl_profiler;
    event.begin_ns = done.begin_ns;
    event.duration_ns = done.duration_ns + (lacks_ends ? kAroundChannelsNs : 0);
    event.op = e.op;
    event.sequence = static_cast<uint32_t>(e.sequence);
    event.delay_us = to_us(e.call_ns, done.begin_ns);
    event.stream = static_cast<uint16_t>(g_queues.number_of(e.stream, shared.comms[e.comm].device.load()));
    event.source = static_cast<uint8_t>(done.source);
    event.how = done.how;
    add_to_totals(shared.ops[e.op], event.duration_ns, e.work);
    write_event(event);
  }
}

void forget(const Pending& item) {
  event_pool(item.device)->give(item.event);
  stream_loses(item.stream);
  if (item.comm != wire::kNoComm) {
    mark_is_gone(item.comm);
  }
}

int state_of(const Pending& item) {
  EventPool& pool = *event_pool(item.device);
  return cuda_api().event_query(item.timed ? pool.stop(item.event) : pool.done(item.event));
}

// False once CUDA has given an error that means it is of no more use.
bool poll_stream(uint32_t number) {
  StreamQueues::Stream& stream = g_queues.stream(number);
  uint32_t step = g_queues.is_in_order(stream) ? kAhead : 1;
  while (step > 0 && g_queues.front(stream) != nullptr) {
    uint32_t count = step;
    const int state = state_of(*g_queues.ahead(stream, &count));
    if (state == kCudaErrorNotReady) {
      step = count / 2;
      continue;
    }
    if (state != 0) {
      forget_cuda_error();
      return false;
    }
    const uint64_t now = now_ns();
    for (uint32_t i = 0; i < count; ++i) {
      const Pending& item = *g_queues.front(stream);
      completed(item, number, stream, now);
      forget(item);
      g_queues.pop(stream);
    }
  }
  return true;
}

bool poll_once() {
  Pending item{};
  while (pending_queue().pop(&item)) {
    if (!g_queues.push(item)) {
      forget(item);
      add(header().health.queue_full, 1);
    }
  }
  for (uint32_t i = 0; i < g_queues.count(); ++i) {
    if (!poll_stream(i)) {
      return false;
    }
  }
  return true;
}

// Those of calls on the host, as they came.
void take_host_spans() {
  Pending span{};
  while (host_spans().pop(&span)) {
    wire::OpEntry& op = segment()->ops[span.op];
    wire::Event event{};
    event.begin_ns = span.call_ns;
    event.duration_ns = span.launched_ns - span.call_ns;
    event.op = span.op;
    event.sequence = static_cast<uint32_t>(op.timed.load(std::memory_order_relaxed));
    event.delay_us = span.sequence;
    event.source = static_cast<uint8_t>(wire::Source::host_call);
    event.flags = wire::kEventHostBegin;
    add(op.timed, 1);
    add(op.timed_ns, event.duration_ns);
    write_event(event);
  }
}

// Once a second: nobody needs it sooner, and no hooked call has to pay for it.
void count_calls(uint64_t now) {
  if (now - g_counted_ns < kCountNs) {
    return;
  }
  g_counted_ns = now;
  uint64_t calls = 0;
  for (const wire::OpEntry& op : segment()->ops) {
    calls += op.calls.load(std::memory_order_relaxed) + op.captured.load(std::memory_order_relaxed);
  }
  header().health.hooked_calls.store(calls);
}

void keep_to_the_budget(uint64_t now) {
  const bool full = level() == wire::Level::full;
  Budget& budget = full ? g_full_budget : g_light_budget;
  const uint64_t ppm = header().to_rank.budget_ppm.load();
  const Periods periods = budget.update(now, spent(), full ? ppm * kFullBudget : ppm);
  set_periods(periods);
  header().period.store(periods.sample);
}

void follow_the_level() {
  const auto wanted = static_cast<wire::Level>(header().to_rank.level.load(std::memory_order_relaxed));
  if (wanted == level()) {
    return;
  }
  if (wanted == wire::Level::off) {
    mark_calls_missed(*segment());
  }
  g_light_budget.restart();
  g_full_budget.restart();
  if (wanted != wire::Level::off) {
    keep_profiler_books();  // while it is off still: exchanges of before are forgotten
  }
  set_level(wanted);
}

void keep_books(uint64_t now) {
  wire::Health& health = header().health;
  timespec cpu{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  health.poller_cpu_ns.store(static_cast<uint64_t>(cpu.tv_sec) * 1'000'000'000 +
                             static_cast<uint64_t>(cpu.tv_nsec));
  health.heartbeat_ns.store(now);
  add(health.polls, 1);
  follow_the_level();
  g_state.host_events.store(header().to_rank.host_events.load(std::memory_order_relaxed) != 0);
  keep_profiler_books();
  if (is_timing_on()) {
    keep_to_the_budget(now);
    count_calls(now);
  }
}

uint64_t pause_ns() {
  if (!is_timing_on()) {
    return kOffNs;
  }
  const uint32_t us = header().to_rank.poll_us.load(std::memory_order_relaxed);
  if (us != 0) {
    return us * (kNsPerMs / 1000);
  }
  if (level() == wire::Level::light) {
    return kLightNs;
  }
  return g_shared_queue ? kSharedQueueNs : kFullNs;
}

// Until it is time for the next look or the process ends.
void rest() {
  const uint64_t pause = pause_ns();
  const timespec time{static_cast<time_t>(pause / 1'000'000'000), static_cast<long>(pause % 1'000'000'000)};
  syscall(SYS_futex, &g_wake, FUTEX_WAIT_PRIVATE, 0, &time, nullptr, 0);
}

void* poll_for_ever(void*) {
  prctl(PR_SET_NAME, "xpurun-poll", 0, 0, 0);
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice);
  while (g_phase.load() == Phase::running) {
    prepare_cuda();
    fill_pools();
    if (g_prepared && !poll_once()) {
      stop_timing(wire::OffReason::cuda_errors);
      break;
    }
    take_host_spans();
    take_profiled();
    keep_books(now_ns());
    rest();
  }
  if (g_phase.load() == Phase::leaving && g_prepared) {
    poll_once();
    take_host_spans();
    take_profiled();
    g_counted_ns = 0;
    count_calls(now_ns());
  }
  g_phase.store(Phase::left);
  return nullptr;
}

}  // namespace

bool start_poller() {
  g_shared_queue = streams_share_a_queue();
  g_correct = events_are_corrected();
  g_leave_out_launches = g_correct && launches_return_at_once();
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) {
    return false;
  }
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 256 * 1024);
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
  while (g_phase.load() != Phase::left && now_ns() < deadline) {
    sleep_until(now_ns() + kNsPerMs / 5);
  }
}

}  // namespace xpurun::preload
