#include "preload/capture/capture_thread.h"

#include "common/wire/capture.h"
#include "preload/core/clock.h"
#include "preload/core/state.h"
#include "preload/process/crash_handler.h"
#include "preload/process/shared_memory.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace xpurun::preload {

namespace {

// The set-up of the counters, which cannot be interrupted, takes up to a second. A program that went on to
// unload CUDA meanwhile would die, so its exit waits.
constexpr uint64_t kFinishNs = 20 * kNsPerSecond;
constexpr int kGuardedRounds = 64;
// CUPTI runs on this stack. Pages that it does not touch cost nothing.
constexpr size_t kStackBytes = size_t{8} << 20;
constexpr char kObject[] = "libxpurun_cupti.so";

sockaddr_un g_socket;
constinit std::atomic<bool> g_running{false};
constinit std::atomic<uint32_t> g_stop{0};
uint32_t g_followed = 0;
int g_guarded = 0;  // rounds of the poller since the capture began
int32_t g_poller = 0;
int32_t g_device = -1;

// The object beside this library.
void* open_object() {
  Dl_info self{};
  char path[4096];
  if (dladdr(reinterpret_cast<void*>(&prepare_captures), &self) == 0 || self.dli_fname == nullptr) {
    return nullptr;
  }
  const char* slash = strrchr(self.dli_fname, '/');
  const size_t length = slash == nullptr ? 0 : static_cast<size_t>(slash - self.dli_fname) + 1;
  if (length + sizeof(kObject) > sizeof(path)) {
    return nullptr;
  }
  memcpy(path, self.dli_fname, length);
  memcpy(path + length, kObject, sizeof(kObject));
  // By its full path, because the directory is not on the loader's search path. RTLD_LOCAL keeps its symbols
  // out of the program's look-ups.
  return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

// A forked child has no capture.
void process_ends() {
  if (!has_stopped()) {
    end_capture();
  }
}

// Exit handlers run in the reverse order of their registration. CUPTI loads libnvperf_host.so, whose
// destructors are such handlers, and whose static objects come into being while the counters are set up. A
// capture that uses the library after those destructors is a crash, so this handler is registered again after
// each load, and in each round of the poller during the set-up.
void end_before_libraries() {
  atexit(process_ends);
}

void give_up(wire::CaptureHeader& header, wire::CaptureProblem problem) {
  header.problem.store(static_cast<uint32_t>(problem));
  header.state.store(static_cast<uint32_t>(wire::CaptureState::failed));
}

void capture(wire::CaptureSegment* memory) {
  memory->header.state.store(static_cast<uint32_t>(wire::CaptureState::starting));
  void* object = open_object();
  using Entry = int(wire::CaptureSegment*, const std::atomic<uint32_t>* stop, int32_t poller, int32_t device,
                    void (*libraries_loaded)());
  auto* entry =
      object == nullptr ? nullptr : reinterpret_cast<Entry*>(dlsym(object, "xpurun_capture_by_cupti"));
  if (entry == nullptr) {
    dlerror();  // the program's next dlerror() must not report this failure
    give_up(memory->header, wire::CaptureProblem::no_object);
    return;
  }
  // Once its callbacks are registered, CUPTI may call them at any time, so the object then stays loaded.
  if (entry(memory, &g_stop, g_poller, g_device, end_before_libraries) == 0) {
    dlclose(object);
  }
}

void* run(void*) {
  prctl(PR_SET_NAME, "xpurun-capture", 0, 0, 0);
  void* memory =
      request_memory(g_socket, make_notice(wire::NoticeKind::capture_attach), sizeof(wire::CaptureSegment));
  if (memory != nullptr) {
    auto* segment = static_cast<wire::CaptureSegment*>(memory);
    if (segment->header.magic == wire::kCaptureMagic && segment->header.version == wire::kCaptureVersion &&
        segment->header.bytes == sizeof(wire::CaptureSegment)) {
      capture(segment);
    }
    munmap(memory, sizeof(wire::CaptureSegment));
  }
  g_running.store(false);
  return nullptr;
}

bool start_thread() {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) {
    return false;
  }
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_t thread{};
  // The poller's mask, with every signal blocked, is inherited, by CUPTI's own thread too.
  const bool started = pthread_create(&thread, &attributes, run, nullptr) == 0;
  pthread_attr_destroy(&attributes);
  return started;
}

}  // namespace

void prepare_captures(const sockaddr_un& socket) {
  g_socket = socket;
}

void follow_capture(uint32_t wanted) {
  if (g_running.load()) {
    if (g_guarded < kGuardedRounds) {
      ++g_guarded;
      end_before_libraries();
    }
    return;
  }
  if (wanted == g_followed) {
    return;
  }
  g_followed = wanted;
  // The stop at exit is final: a new thread would outlive CUDA.
  if (wanted == 0 || g_stop.load() != 0) {
    return;
  }
  g_poller = static_cast<int32_t>(syscall(SYS_gettid));
  const wire::Segment* own = segment();
  g_device = own == nullptr ? -1 : own->header.device.load();
  // Set before the thread exists, so that end_capture() waits for a thread that is about to start.
  g_running.store(true);
  g_guarded = 0;
  if (!start_thread()) {
    g_running.store(false);
  }
}

void end_capture() {
  g_stop.store(1);
  const uint64_t deadline = now_ns() + kFinishNs;
  while (g_running.load() && now_ns() < deadline) {
    sleep_until(now_ns() + kNsPerMs / 5);
  }
}

}  // namespace xpurun::preload

// For programs that know of their end before exit(): Python.
extern "C" __attribute__((visibility("default"))) void xpurun_process_ends() {
  xpurun::preload::process_ends();
}
