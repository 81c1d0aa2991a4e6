#include "tests/fakes/fake_gpu.h"

#include "tests/fakes/fake_profiler.h"

#include <atomic>
#include <map>
#include <mutex>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr uint64_t kNever = UINT64_MAX / 2;

uint64_t now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

long number(const char* name, long otherwise) {
  const char* text = getenv(name);
  return text != nullptr ? atol(text) : otherwise;
}

struct Stream {
  uint64_t busy_until = 0;
  uint64_t busy_from = 0;  // the last piece of work
  bool capturing = false;
  bool made = false;  // by cudaStreamCreateWithFlags
};

struct Event {
  uint64_t at = 0;
  bool timed = true;
};

std::mutex g_mutex;
// Never destroyed: threads use it while the process ends.
std::map<void*, Stream>& g_streams = *new std::map<void*, Stream>;
std::atomic<uint64_t> g_last{0};
std::atomic<const char*> g_function{""};
std::atomic<uint64_t> g_calls{0};
std::atomic<int> g_violations{0};
std::atomic<int> g_event_calls{0};  // on unknown streams: the program's streams are just addresses
uint64_t g_pieces = 0;
thread_local int t_last_error = 0;
thread_local int t_device = 0;

void work_for(Stream& s, uint64_t duration) {
  if (s.busy_until < kNever) {
    s.busy_until = (s.busy_until > now() ? s.busy_until : now()) + duration;
  }
}

int failed(int error) {
  t_last_error = error;
  return error;
}

}  // namespace

EXPORT uint64_t fake_last_arguments() {
  return g_last.load();
}
EXPORT void fake_set_last_arguments(uint64_t hash) {
  ++g_calls;
  g_last.store(hash);
}
EXPORT const char* fake_last_function() {
  return g_function.load();
}
EXPORT void fake_set_last_function(const char* name) {
  g_function.store(name);
}
EXPORT uint64_t fake_calls() {
  return g_calls.load();
}
EXPORT int fake_violations() {
  return g_violations.load();
}
EXPORT int fake_event_calls() {
  return g_event_calls.load();
}

EXPORT void fake_gpu_lock() {
  g_mutex.lock();
}
EXPORT void fake_gpu_unlock() {
  g_mutex.unlock();
}

EXPORT void fake_gpu_work(void* stream) {
  static const auto duration = static_cast<uint64_t>(number("FAKE_GPU_WORK_US", 50)) * 1000;
  static const auto never = static_cast<uint64_t>(number("FAKE_GPU_NEVER", 0));
  const std::lock_guard lock(g_mutex);
  Stream& s = g_streams[stream];
  if (s.capturing) {
    return;
  }
  if (never != 0 && ++g_pieces >= never) {
    s.busy_until = kNever;
  } else if (s.busy_until < kNever) {
    work_for(s, duration);
    s.busy_from = s.busy_until - duration;
  }
}

EXPORT void fake_gpu_kernel(void* stream) {
  static const auto duration = static_cast<uint64_t>(number("FAKE_GPU_KERNEL_US", 20)) * 1000;
  const std::lock_guard lock(g_mutex);
  Stream& s = g_streams[stream];
  if (!s.capturing) {
    work_for(s, duration);
  }
}

EXPORT void fake_gpu_interval(void* stream, uint64_t* begin, uint64_t* end) {
  const std::lock_guard lock(g_mutex);
  *begin = g_streams[stream].busy_from;
  *end = g_streams[stream].busy_until;
}
EXPORT int fake_is_capturing(void* stream) {
  const std::lock_guard lock(g_mutex);
  return g_streams[stream].capturing ? 1 : 0;
}
EXPORT void fake_violation(const char* what) {
  printf("VIOLATION %s\n", what);
  ++g_violations;
}

// --- the runtime's own bookkeeping, exported by the fake libcudart only

EXPORT int cudaGetDevice(int* device) {
  *device = t_device;
  return 0;
}
EXPORT int cudaSetDevice(int device) {
  t_device = device;
  return 0;
}
EXPORT int cudaEventCreateWithFlags(void** event, unsigned flags) {
  *event = new Event{0, (flags & 2) == 0};
  return 0;
}
EXPORT int cudaEventRecord(void* event, void* stream) {
  static const int error = static_cast<int>(number("FAKE_GPU_FAIL_EVENTS", 0));
  if (error != 0) {
    return failed(error);
  }
  const std::lock_guard lock(g_mutex);
  Stream& s = g_streams[stream];
  g_event_calls += s.made ? 0 : 1;
  if (s.capturing) {
    ++g_violations;
    return failed(900);
  }
  static const auto own = static_cast<uint64_t>(number("FAKE_GPU_EVENT_US", 0)) * 1000;
  work_for(s, own);
  static_cast<Event*>(event)->at = s.busy_until > now() ? s.busy_until : now();
  return 0;
}
EXPORT int cudaEventQuery(void* event) {
  const std::lock_guard lock(g_mutex);
  return now() >= static_cast<Event*>(event)->at ? 0 : failed(600);
}
EXPORT int cudaEventElapsedTime(float* ms, void* start, void* stop) {
  const std::lock_guard lock(g_mutex);
  const auto* a = static_cast<Event*>(start);
  const auto* b = static_cast<Event*>(stop);
  if (!a->timed || !b->timed || b->at > now()) {
    ++g_violations;
    return failed(400);
  }
  static const bool prints = number("FAKE_GPU_PRINTS", 0) != 0;
  if (prints) {
    printf("elapsed %lld\n", static_cast<long long>(b->at) - static_cast<long long>(a->at));
  }
  *ms = static_cast<float>((static_cast<double>(b->at) - static_cast<double>(a->at)) / 1e6);
  return 0;
}
EXPORT int cudaStreamIsCapturing(void* stream, int* status) {
  const std::lock_guard lock(g_mutex);
  *status = g_streams[stream].capturing ? 1 : 0;
  return 0;
}
EXPORT int fake_set_capturing(void* stream, int on) {
  const std::lock_guard lock(g_mutex);
  g_streams[stream].capturing = on != 0;
  return 0;
}
EXPORT int cudaThreadExchangeStreamCaptureMode(int*) {
  return 0;
}
EXPORT int cudaGetLastError() {
  const int error = t_last_error;
  t_last_error = 0;
  return error;
}
EXPORT int cudaPeekAtLastError() {
  return t_last_error;
}
EXPORT int fake_set_last_error(int error) {
  return failed(error);
}
EXPORT int cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return 0;
}
EXPORT int cudaStreamCreateWithFlags(void** stream, unsigned) {
  *stream = new int;
  const std::lock_guard lock(g_mutex);
  g_streams[*stream].made = true;
  return 0;
}
EXPORT int cudaDeviceGetPCIBusId(char* text, int length, int) {
  strncpy(text, "0000:1B:00.0", static_cast<size_t>(length));
  return 0;
}
EXPORT int cudaDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 75 ? static_cast<int>(number("FAKE_GPU_COMPUTE_MAJOR", 8)) : 0;
  return 0;
}
EXPORT int cudaPointerGetAttributes(void* attributes, const void* pointer) {
  *static_cast<int*>(attributes) = reinterpret_cast<uintptr_t>(pointer) == 0x1000 ? 1 : 0;
  return 0;
}
EXPORT int cudaStreamSynchronize(void* stream) {
  for (;;) {
    uint64_t until = 0;
    {
      const std::lock_guard lock(g_mutex);
      until = g_streams[stream].busy_until;
    }
    if (now() >= until || until >= kNever) {
      return 0;
    }
    const timespec pause{0, 100'000};
    nanosleep(&pause, nullptr);
  }
}
EXPORT int cublasGetStream_v2(void* handle, void** stream) {
  *stream = handle;  // a fake handle is its stream
  return 0;
}

// --- cuBLASLt: a layout or descriptor is an array of attributes

EXPORT int cublasLtMatmulDescGetAttribute(void* object, int attribute, void* buffer, size_t size,
                                          size_t* written) {
  const auto* values = static_cast<const int64_t*>(object);
  if (attribute < 0 || attribute > 31) {
    return 7;
  }
  memcpy(buffer, &values[attribute], size);
  *written = size;
  return 0;
}
EXPORT int cublasLtMatrixLayoutGetAttribute(void* object, int attribute, void* buffer, size_t size,
                                            size_t* written) {
  return cublasLtMatmulDescGetAttribute(object, attribute, buffer, size, written);
}

// --- NCCL: a communicator is {rank, nranks}

struct FakeComm {
  int rank;
  int nranks;
};
EXPORT int ncclGetVersion(int* version) {
  *version = fake_nccl_version();
  return 0;
}
EXPORT int ncclCommCount(void* comm, int* value) {
  *value = static_cast<FakeComm*>(comm)->nranks;
  return 0;
}
EXPORT int ncclCommUserRank(void* comm, int* value) {
  *value = static_cast<FakeComm*>(comm)->rank;
  return 0;
}
EXPORT int ncclCommCuDevice(void*, int* value) {
  *value = 0;
  return 0;
}
EXPORT void* fake_make_comm(int rank, int nranks) {
  auto* comm = new FakeComm{rank, nranks};
  fake_profiler_open(comm, rank, nranks);
  return comm;
}
EXPORT int fake_comm_ranks(void* comm) {
  return static_cast<FakeComm*>(comm)->nranks;
}
