#include "preload/timing/poller.h"

#include "preload/supervisor_link.h"
#include "preload/timing/budget.h"
#include "preload/timing/cuda_api.h"
#include "preload/timing/event_pool.h"
#include "preload/timing/gpu_clock.h"
#include "preload/timing/gpu_identity.h"
#include "preload/timing/ledger.h"
#include "preload/timing/stream_queues.h"
#include "preload/timing/timed_call.h"
#include "preload/timing/vendor.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace xpurun::preload {

namespace {

constexpr uint64_t kNsPerMs = 1'000'000;
constexpr uint64_t kBusyNs = 2 * kNsPerMs;
constexpr uint64_t kBusyFullNs = kNsPerMs;
constexpr uint64_t kIdleNs = 10 * kNsPerMs;
constexpr uint64_t kOffNs = 100 * kNsPerMs;
constexpr uint64_t kFinishNs = 20 * kNsPerMs;
constexpr int kNice = 10;

enum class Phase : uint32_t { none, running, leaving, left };

constinit std::atomic<Phase> g_phase{Phase::none};
constinit StreamQueues g_queues;
GpuClock g_clocks[kMaxDevices];
Budget g_budget;
bool g_prepared = false;
bool g_clock_allowed = true;

wire::SegmentHeader& header() {
  return segment()->header;
}

void prepare_cuda() {
  if (g_prepared || !load_cuda_api()) {
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
  for (int device = 0; device < kMaxDevices; ++device) {
    EventPool& pool = *event_pool(device);
    if (pool.state() == EventPool::State::wanted) {
      if (cuda_api().set_device(device) != 0) {
        forget_cuda_error();
      }
      if (g_clock_allowed) {
        g_clocks[device].set_up();
      }
      pool.fill();
      describe_device(header(), device);
      header().state.store(static_cast<uint32_t>(wire::RankState::timing));
    } else if (pool.state() == EventPool::State::ready) {
      g_clocks[device].tick();
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
  event->duration_ns = ms > 0 ? static_cast<uint64_t>(static_cast<double>(ms) * 1e6) : 0;
  event->begin_ns = g_clocks[item.device].host_time_of(pool.start(item.event));
  // The clocks may be some microseconds apart; milliseconds are a mistake.
  if (event->begin_ns + kNsPerMs < item.call_ns || event->begin_ns > now + kNsPerMs) {
    event->begin_ns = item.call_ns;
    event->flags = wire::kEventHostBegin;
  }
  return true;
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
    wire::OpEntry& op = shared.ops[item.op];
    add(op.timed, 1);
    add(op.timed_ns, event.duration_ns);
    add(op.timed_work, item.work);
    write_event(event);
  }
  stream.last_end_ns = now;
}

// False once CUDA has given an error that means it is of no more use.
bool poll_stream(uint32_t number) {
  StreamQueues::Stream& stream = g_queues.stream(number);
  while (const Pending* item = g_queues.front(stream)) {
    EventPool& pool = *event_pool(item->device);
    void* event = item->timed ? pool.stop(item->event) : pool.done(item->event);
    const int state = cuda_api().event_query(event);
    if (state == kCudaErrorNotReady) {
      return true;
    }
    if (state != 0) {
      forget_cuda_error();
      return false;
    }
    completed(*item, number, stream, now_ns());
    pool.give(item->event);
    stream_loses(item->stream);
    g_queues.pop(stream);
  }
  return true;
}

bool poll_once() {
  Pending item{};
  while (pending_queue().pop(&item)) {
    if (!g_queues.push(item)) {
      event_pool(item.device)->give(item.event);
      stream_loses(item.stream);
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

void keep_books(uint64_t now) {
  wire::SegmentHeader& h = header();
  timespec cpu{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  h.health.poller_cpu_ns.store(static_cast<uint64_t>(cpu.tv_sec) * 1'000'000'000 +
                               static_cast<uint64_t>(cpu.tv_nsec));
  h.health.heartbeat_ns.store(now);
  add(h.health.polls, 1);
  const uint32_t period = g_budget.update(now, h.health.own_ns.load(), h.to_rank.budget_ppm.load());
  set_period(period);
  h.period.store(period);
  const auto wanted = static_cast<wire::Level>(h.to_rank.level.load(std::memory_order_relaxed));
  if (wanted != level()) {
    if (wanted == wire::Level::off) {
      mark_calls_missed(*segment());
    }
    set_level(wanted);
  }
}

uint64_t pause_ns() {
  if (!g_queues.empty()) {
    return level() == wire::Level::full ? kBusyFullNs : kBusyNs;
  }
  return is_timing_on() ? kIdleNs : kOffNs;
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
    keep_books(now_ns());
    sleep_until(now_ns() + pause_ns());
  }
  if (g_phase.load() == Phase::leaving && g_prepared) {
    poll_once();
  }
  g_phase.store(Phase::left);
  return nullptr;
}

}  // namespace

bool start_poller() {
  const char* connections = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  // One hardware queue for all streams: ours would stand between the program's.
  g_clock_allowed = connections == nullptr || strcmp(connections, "1") != 0;
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
  while (g_phase.load() != Phase::left && now_ns() < deadline) {
    sleep_until(now_ns() + kNsPerMs / 5);
  }
}

}  // namespace xpurun::preload
