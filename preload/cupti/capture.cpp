// The entry of libxpurun_cupti.so: one capture from begin to end, on the thread that calls.
#include "common/wire/capture.h"

#include "preload/core/clock.h"
#include "preload/cupti/activity_buffers.h"
#include "preload/cupti/cupti_abi.h"
#include "preload/cupti/cupti_library.h"
#include "preload/cupti/resource_sampler.h"

namespace xpurun::preload::cupti {

namespace {

using wire::CaptureProblem;
using wire::CaptureState;

constexpr uint64_t kRoundNs = 5 * kNsPerMs;
constexpr uint64_t kLateRecordsNs = 20 * kNsPerMs;
// Concurrent kernels: the kind "kernel" would make CUPTI run all kernels one after the other.
// No calls of the driver's interface: in a process whose other threads launch kernels,
// cuptiActivityEnableDriverApi ended in SIGSEGV in 3 of 20 runs of tests/gpu/repeated_captures, and in
// records that came twice in 9 (CUPTI 13.0.1), which make torch.profiler raise.
constexpr uint32_t kKinds[] = {kConcurrentKernel, kMemcpy, kMemset, kRuntime, kOverhead};

void ignore_callback(void*, uint32_t, uint32_t, const void*) {}

class Capture {
 public:
  Capture(wire::CaptureSegment& memory, const std::atomic<uint32_t>& stop, int32_t poller, int32_t device,
          void (*libraries_loaded)())
      : memory_(memory),
        header_(memory.header),
        stop_(stop),
        poller_(poller),
        libraries_loaded_(libraries_loaded),
        sampler_(memory, device) {}

  void run();
  // CUPTI may still call functions of this object.
  bool must_stay() const { return registered_; }

 private:
  bool prepare();
  bool is_another_client_there();
  int64_t to_host_ns() const;
  bool enable();
  void wait();
  bool is_clock_sound() const;
  void end();
  void fail(CaptureProblem problem, Result error = kSuccess);

  // Outlives the capture, because CUPTI's callbacks use the functions.
  static Functions cupti_;

  wire::CaptureSegment& memory_;
  wire::CaptureHeader& header_;
  const std::atomic<uint32_t>& stop_;
  int32_t poller_;
  void (*libraries_loaded_)();
  uint64_t requested_ns_ = now_ns();
  uint32_t thread_ids_ = 0;
  bool registered_ = false;
  int64_t to_host_ns_ = 0;
  ResourceSampler sampler_;
};

constinit Functions Capture::cupti_{};

void Capture::fail(CaptureProblem problem, Result error) {
  header_.error.store(error);
  header_.problem.store(static_cast<uint32_t>(problem));
  header_.state.store(static_cast<uint32_t>(CaptureState::failed));
}

// CUPTI has one subscriber. torch.profiler subscribes when it is used for the first time, and stays. The
// subscription is dropped at once: a client that comes later must not find CUPTI taken.
bool Capture::is_another_client_there() {
  void* subscriber = nullptr;
  const Result result = cupti_.subscribe(&subscriber, ignore_callback, nullptr);
  if (result == kSuccess) {
    cupti_.unsubscribe(subscriber);
    return false;
  }
  header_.error.store(result);
  return true;
}

bool Capture::prepare() {
  if (!load_functions(cupti_)) {
    fail(CaptureProblem::no_library);
    return false;
  }
  uint32_t version = 0;
  if (const Result result = cupti_.get_version(&version); result != kSuccess) {
    fail(CaptureProblem::refused, result);
    return false;
  }
  header_.cupti_version.store(version);
  const bool known =
      (version >= kOldestVersion && version <= kNewestOfCuda12) || (version >= kCuda13 && version < kCuda14);
  if (!known) {
    fail(CaptureProblem::version);
    return false;
  }
  if (is_another_client_there()) {
    const Result error = header_.error.load();
    fail(error == kMultipleSubscribers ? CaptureProblem::other_client : CaptureProblem::refused, error);
    return false;
  }
  return true;
}

// CUPTI's clock has an arbitrary origin. The closest pair of readings counts.
int64_t Capture::to_host_ns() const {
  int64_t best = 0;
  uint64_t closest = ~uint64_t{0};
  for (int i = 0; i < 10; ++i) {
    uint64_t theirs = 0;
    const uint64_t before = now_ns();
    if (cupti_.get_timestamp(&theirs) != kSuccess) {
      continue;
    }
    const uint64_t after = now_ns();
    if (after - before < closest) {
      closest = after - before;
      best = static_cast<int64_t>(before + closest / 2 - theirs);
    }
  }
  return best;
}

bool Capture::enable() {
  to_host_ns_ = to_host_ns();
  if (!open_buffers(memory_, cupti_, to_host_ns_, poller_)) {
    fail(CaptureProblem::no_memory);
    return false;
  }
  // The kernel's thread ids, as in all other records. CUPTI's default is pthread_self(). The setting is
  // restored at the end, because another client may rely on it.
  if (cupti_.get_thread_id_type != nullptr && cupti_.set_thread_id_type != nullptr) {
    cupti_.get_thread_id_type(&thread_ids_);
    cupti_.set_thread_id_type(kThreadIdOfSystem);
  }
  // Set before the call: CUPTI may keep the callbacks even if it returns an error.
  registered_ = true;
  Result result = cupti_.register_callbacks(buffer_requested, buffer_completed);
  for (const uint32_t kind : kKinds) {
    if (result == kSuccess) {
      result = cupti_.enable(kind);
      // Without these records, only the cost of the capture is unknown.
      result = kind == kOverhead ? kSuccess : result;
    }
  }
  if (result != kSuccess) {
    end();
    fail(CaptureProblem::refused, result);
    return false;
  }
  return true;
}

void Capture::wait() {
  const uint64_t until =
      header_.begin_ns.load() + header_.duration_ms.load(std::memory_order_relaxed) * kNsPerMs;
  uint64_t next_take = header_.begin_ns.load() + ResourceSampler::kTakeEveryNs;
  bool taken = false;
  for (uint64_t now = now_ns();
       now < until && stop_.load() == 0 && header_.stop.load() == 0 && !are_records_full(); now = now_ns()) {
    if (now >= next_take) {
      sampler_.take();
      if (!taken) {
        libraries_loaded_();  // decoding loads libraries too
        taken = true;
      }
      next_take = now_ns() + ResourceSampler::kTakeEveryNs;
      continue;
    }
    sleep_until(now + kRoundNs < until ? now + kRoundNs : until);
  }
}

// A client that comes during the capture may give CUPTI another clock. torch.profiler's clock counts CPU
// cycles instead of ns.
bool Capture::is_clock_sound() const {
  const uint64_t elapsed = now_ns() - header_.begin_ns.load();
  const int64_t moved = to_host_ns() - to_host_ns_;
  const uint64_t distance = static_cast<uint64_t>(moved < 0 ? -moved : moved);
  return distance <= kNsPerMs + elapsed / 100;
}

// CUPTI learns of a kernel's end later than the program. The records are fetched before the subscription is
// tried, because the trial may drop them. A client that came meanwhile has registered its own buffers and
// relies on the enabled kinds, so nothing is switched off then.
void Capture::end() {
  sleep_until(now_ns() + kLateRecordsNs);
  cupti_.flush_all(kForcedFlush);
  sampler_.end();  // before the test: CUPTI may count the sampling as a client
  if (is_another_client_there()) {
    header_.problem.store(static_cast<uint32_t>(CaptureProblem::client_came));
  } else {
    for (const uint32_t kind : kKinds) {
      cupti_.disable(kind);
    }
    cupti_.flush_all(kForcedFlush);
    if (cupti_.set_thread_id_type != nullptr) {
      cupti_.set_thread_id_type(thread_ids_);
    }
  }
  close_buffers();
}

void Capture::run() {
  if (!prepare()) {
    return;
  }
  libraries_loaded_();
  // Setting up the counters takes half a second. It comes first, so that the capture is not shortened.
  sampler_.prepare();
  libraries_loaded_();
  if (!enable()) {
    return;
  }
  sampler_.start(to_host_ns_);
  libraries_loaded_();
  const uint64_t begin = now_ns();
  header_.setup_ns.store(begin - requested_ns_ - header_.sampling.setup_ns.load());
  header_.begin_ns.store(begin);
  header_.state.store(static_cast<uint32_t>(CaptureState::running));
  wait();
  const uint64_t over = now_ns();
  header_.end_ns.store(over);
  sampler_.stop(is_clock_sound());
  end();
  header_.teardown_ns.store(now_ns() - over - header_.sampling.stop_ns.load());
  header_.state.store(static_cast<uint32_t>(CaptureState::done));
}

}  // namespace

}  // namespace xpurun::preload::cupti

// Records until the time is over or `*stop` is not 0. `device`: CUDA's number of the rank's GPU, -1 if
// unknown. `libraries_loaded` is called whenever CUPTI may have loaded libraries; the caller ends the capture
// before their destructors. Returns 1 if the object must not be unloaded.
extern "C" __attribute__((visibility("default"))) int xpurun_capture_by_cupti(
    xpurun::wire::CaptureSegment* memory, const std::atomic<uint32_t>* stop, int32_t poller, int32_t device,
    void (*libraries_loaded)()) {
  xpurun::preload::cupti::Capture capture(*memory, *stop, poller, device, libraries_loaded);
  capture.run();
  return capture.must_stay() ? 1 : 0;
}
