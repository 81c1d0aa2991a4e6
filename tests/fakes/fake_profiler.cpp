#include "tests/fakes/fake_profiler.h"

#include "tests/fakes/fake_gpu.h"

#include <atomic>
#include <deque>
#include <dlfcn.h>
#include <map>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// Offset of the GPU's clock from the host's.
constexpr uint64_t kGpuClock = 1'700'000'000'000'000'000;
constexpr int kGroup = 1, kColl = 2, kP2p = 4, kKernelCh = 64;
constexpr int kKernelChStop = 22;

uint64_t now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

long number(const char* name, long otherwise) {
  const char* text = getenv(name);
  return text != nullptr ? atol(text) : otherwise;
}

bool behaves(const char* how) {
  static const char* const behaviour = getenv("FAKE_NCCL_BEHAVIOUR");
  return behaviour != nullptr && strcmp(behaviour, how) == 0;
}

struct Table {
  const char* name;
  void* init;
  int (*start)(void*, void**, void*);
  int (*stop)(void*);
  int (*record)(void*, int, void*);
  int (*finalize)(void*);
};

Table* g_table = nullptr;
int g_version = 0;
int g_mask = 0;
std::mutex g_mutex;
// Never destroyed: the proxy thread runs on while the process ends.
std::map<void*, void*>& g_contexts = *new std::map<void*, void*>;

// A descriptor as bytes. Field offsets were measured on NCCL's headers
// src/include/plugin/profiler/profiler_v*.h.
struct Descriptor {
  alignas(8) unsigned char bytes[160];

  // Unset fields have arbitrary values, as in NCCL, which translates descriptors for older interfaces.
  Descriptor() { memset(bytes, g_version >= 5 ? 0 : 0xa5, sizeof(bytes)); }
  template <typename T>
  void put(size_t at, T value) {
    memcpy(bytes + at, &value, sizeof(value));
  }
  void head(int type, void* parent, int rank) {
    if (g_version >= 5) {
      put(0, static_cast<uint64_t>(type));
    } else {
      put(0, static_cast<uint8_t>(type));
    }
    put(8, parent);
    put(16, rank);
  }
};

struct Kernel {
  void* context;
  void* task;
  int channel;
  uint64_t begin;
  uint64_t end;
  void* handle = nullptr;
  int phase = 0;
};

struct Queued {
  FakeTask task;
  int mask;
  uint64_t begin = 0;  // of its kernel
  uint64_t end = 0;
};

std::mutex g_kernels_mutex;
std::deque<Kernel>& g_kernels = *new std::deque<Kernel>;
std::deque<Queued>& g_later = *new std::deque<Queued>;
std::atomic<bool> g_proxy{false};
std::atomic<bool> g_stood_still{false};
std::atomic<size_t> g_untold{0};     // kernels and tasks that the proxy has not finished
std::atomic<uint64_t> g_late_ns{0};  // written by the proxy alone
thread_local int t_depth = 0;
thread_local std::vector<Queued> t_queue;

void* context_of(void* comm) {
  const std::lock_guard lock(g_mutex);
  const auto it = g_contexts.find(comm);
  return it == g_contexts.end() ? nullptr : it->second;
}

void start_kernel(Kernel& k) {
  Descriptor d;
  d.head(kKernelCh, k.task, 0);
  d.put(24, static_cast<uint8_t>(k.channel));
  if (g_version >= 4) {
    d.put(32, behaves("no-timer") ? uint64_t{0} : k.begin + kGpuClock);
  }
  g_table->start(k.context, &k.handle, d.bytes);
}

void stop_kernel(Kernel& k) {
  uint64_t timer = behaves("no-timer") ? 0 : k.end + kGpuClock;
  if (k.handle == nullptr) {
    return;
  }
  if (behaves("stop-first")) {
    g_table->stop(k.handle);
    g_table->record(k.handle, kKernelChStop, &timer);
    return;
  }
  if (g_version >= 3) {
    g_table->record(k.handle, kKernelChStop, g_version >= 4 ? &timer : nullptr);
  }
  g_table->stop(k.handle);
  if (behaves("replay")) {
    // A stale handle, used repeatedly, and an invalid parent.
    for (int i = 0; i < 3; ++i) {
      g_table->record(k.handle, kKernelChStop, &timer);
      g_table->stop(k.handle);
      Kernel again = k;
      start_kernel(again);
      Kernel orphan = k;
      orphan.task = nullptr;
      start_kernel(orphan);
    }
  }
}

void tell(const Queued& queued);

void was_due(uint64_t at) {
  const uint64_t late = now() - at;
  if (late > g_late_ns) {
    g_late_ns = late;
  }
}

void proxy() {
  for (;;) {
    std::deque<Kernel> kernels;
    std::deque<Queued> later;
    {
      const std::lock_guard lock(g_kernels_mutex);
      kernels.swap(g_kernels);
      later.swap(g_later);
    }
    if (!kernels.empty() && behaves("stands-still") && !g_stood_still.exchange(true)) {
      const timespec longer_than_is_waited_for{3, 500'000'000};
      nanosleep(&longer_than_is_waited_for, nullptr);
    }
    for (const Queued& queued : later) {
      tell(queued);
      --g_untold;
    }
    std::deque<Kernel> rest;
    for (Kernel& k : kernels) {
      // NVIDIA/nccl pull request 2221: the end is reported first, and the begin afterwards.
      if (behaves("late-start") ? now() >= k.end : (k.phase == 0 && now() >= k.begin)) {
        start_kernel(k);
        was_due(k.begin);
        k.phase = behaves("late-start") ? 2 : 1;
      }
      if (k.phase == 1 && now() >= k.end) {
        k.phase = 2;
        if (!behaves("never-stops")) {
          stop_kernel(k);
          was_due(k.end);
        }
      }
      if (k.phase < 2) {
        rest.push_back(k);
      } else {
        --g_untold;
      }
    }
    {
      const std::lock_guard lock(g_kernels_mutex);
      g_kernels.insert(g_kernels.begin(), rest.begin(), rest.end());
    }
    const timespec pause{0, 50'000};
    nanosleep(&pause, nullptr);
  }
}

Descriptor coll_descriptor(const FakeTask& t, int channels, void* group) {
  Descriptor d;
  d.head(kColl, g_version >= 5 ? nullptr : group, 0);
  const bool old = g_version <= 3;
  const size_t base = old ? 40 : 24;  // seqNumber
  d.put(base, uint64_t{1});
  if (g_version == 1) {
    d.put(48, uint8_t{4});
  } else {
    d.put(base + 8, t.func);
  }
  d.put(base + 16, t.send);
  d.put(base + 24, t.receive);
  d.put(base + 32, t.count);
  d.put(base + 40, t.root);
  const char* algorithm = "RING";
  const char* protocol = "LL128";
  switch (g_version) {
    case 1:
      d.put(104, static_cast<uint8_t>(channels));
      d.put(106, uint8_t{1});
      d.put(107, uint8_t{1});
      break;
    case 2:
      d.put(104, static_cast<uint8_t>(channels));
      d.put(112, algorithm);
      d.put(120, protocol);
      break;
    case 3:
      d.put(96, static_cast<uint8_t>(channels));
      d.put(104, algorithm);
      d.put(112, protocol);
      break;
    default:
      d.put(80, static_cast<uint8_t>(channels));
      d.put(88, algorithm);
      d.put(96, protocol);
      if (g_version >= 5) {
        d.put(104, group);
      }
  }
  return d;
}

// Everything about one task: group, collective, then its kernel's channels.
void tell(const Queued& queued) {
  static const int channels = static_cast<int>(number("FAKE_NCCL_CHANNELS", 3));
  static const int announced = channels + static_cast<int>(number("FAKE_NCCL_ANNOUNCES", 0));
  const FakeTask& t = queued.task;
  void* context = context_of(t.comm);
  if (g_table == nullptr || context == nullptr || (queued.mask & (kGroup | kColl | kP2p | kKernelCh)) == 0) {
    return;
  }
  void* group = nullptr;
  Descriptor g;
  g.head(kGroup, nullptr, 0);
  g_table->start(context, &group, g.bytes);
  void* handle = nullptr;
  if (t.point_to_point != 0) {
    Descriptor p;
    p.head(kP2p, g_version >= 5 ? nullptr : group, 0);
    if (g_version >= 5) {
      p.put(64, group);
    }
    g_table->start(context, &handle, p.bytes);
  } else {
    Descriptor d = coll_descriptor(t, announced, group);
    g_table->start(context, &handle, d.bytes);
  }
  if ((queued.mask & kKernelCh) != 0 && g_version >= 3 && !behaves("silent")) {
    const std::lock_guard lock(g_kernels_mutex);
    g_untold += static_cast<size_t>(channels);
    for (int c = 0; c < channels; ++c) {
      const auto at = static_cast<uint64_t>(c);
      g_kernels.push_back(
          {context, handle, c, queued.begin + at, queued.end - static_cast<uint64_t>(channels - 1) + at});
    }
    if (!g_proxy.exchange(true)) {
      std::thread(proxy).detach();
    }
  }
  if (handle != nullptr) {
    g_table->stop(handle);
  }
  if (group != nullptr) {
    g_table->stop(group);
  }
}

void load() {
  const char* name = getenv("NCCL_PROFILER_PLUGIN");
  if (g_table != nullptr || name == nullptr || strcasecmp(name, "none") == 0) {
    return;
  }
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  for (int version = static_cast<int>(number("FAKE_NCCL_PROFILER", 5)); library != nullptr && version > 0;
       --version) {
    const std::string symbol = "ncclProfiler_v" + std::to_string(version);
    if (void* table = dlsym(library, symbol.c_str())) {
      g_table = static_cast<Table*>(table);
      g_version = version;
      return;
    }
  }
}

// A forked child must not inherit a lock that the proxy holds.
void lock_everything() {
  g_mutex.lock();
  g_kernels_mutex.lock();
  fake_gpu_lock();
}

void unlock_everything() {
  fake_gpu_unlock();
  g_kernels_mutex.unlock();
  g_mutex.unlock();
}

__attribute__((constructor)) void prepare_for_forks() {
  pthread_atfork(lock_everything, unlock_everything, unlock_everything);
}

void logger(int, unsigned long, const char*, int, const char*, ...) {}

}  // namespace

EXPORT int fake_nccl_version() {
  static const int version = static_cast<int>(number("FAKE_NCCL_VERSION", 22809));
  return version;
}

// The event mask that the plugin has set, as NCCL stores it.
EXPORT int fake_profiler_mask() {
  return g_mask;
}

EXPORT int fake_profiler_told_all() {
  return g_untold == 0 ? 1 : 0;
}

EXPORT int fake_profiler_late_us() {
  return static_cast<int>(g_late_ns / 1000) + 1;
}

EXPORT void fake_profiler_open(void* comm, int rank, int nranks) {
  const std::lock_guard lock(g_mutex);
  load();
  if (g_table == nullptr) {
    return;
  }
  using V1 = int(void**, int*);
  using V4 = int(void**, int*, const char*, uint64_t, int, int, int,
                 void (*)(int, unsigned long, const char*, int, const char*, ...));
  using V5 = int(void**, uint64_t, int*, const char*, int, int, int,
                 void (*)(int, unsigned long, const char*, int, const char*, ...));
  void* context = nullptr;
  int result = 0;
  if (g_version <= 3) {
    result = reinterpret_cast<V1*>(g_table->init)(&context, &g_mask);
  } else if (g_version == 4) {
    result = reinterpret_cast<V4*>(g_table->init)(&context, &g_mask, "name", 77, 1, nranks, rank, logger);
  } else {
    result = reinterpret_cast<V5*>(g_table->init)(&context, 77, &g_mask, "name", 1, nranks, rank, logger);
  }
  if (result == 0) {
    g_contexts[comm] = context;
  }
}

EXPORT void fake_profiler_close(void* comm) {
  const std::lock_guard lock(g_mutex);
  const auto it = g_contexts.find(comm);
  if (it != g_contexts.end()) {
    g_table->finalize(it->second);
    g_contexts.erase(it);
  }
}

EXPORT int fake_profiler_task(const FakeTask* task) {
  if (g_table == nullptr || fake_is_capturing(task->stream) != 0) {
    return 0;
  }
  Queued queued{*task, __atomic_load_n(&g_mask, __ATOMIC_RELAXED)};
  fake_gpu_interval(task->stream, &queued.begin, &queued.end);
  if (t_depth > 0) {
    t_queue.push_back(queued);
    return 0;
  }
  if (behaves("later")) {
    const std::lock_guard lock(g_kernels_mutex);
    ++g_untold;
    g_later.push_back(queued);
    if (!g_proxy.exchange(true)) {
      std::thread(proxy).detach();
    }
    return 7;
  }
  tell(queued);
  return 0;
}

EXPORT void fake_profiler_group_start() {
  ++t_depth;
}

EXPORT void fake_profiler_group_end() {
  if (--t_depth > 0) {
    return;
  }
  int exchange = -1;
  for (const Queued& queued : t_queue) {
    if (queued.task.point_to_point != 0) {
      if (exchange >= 0 && (exchange & kKernelCh) != (queued.mask & kKernelCh)) {
        fake_violation("an exchange in which not all are asked for: NCCL's proxy would wait for ever");
      }
      exchange = queued.mask;
    }
    tell(queued);
  }
  t_queue.clear();
}
