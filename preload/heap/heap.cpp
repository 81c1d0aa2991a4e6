#include "preload/heap/heap.h"

#include "common/wire/heap_segment.h"
#include "preload/heap/entries.h"
#include "preload/heap/sampler.h"
#include "preload/process/crash_handler.h"
#include "preload/process/rank_identity.h"
#include "preload/process/shared_memory.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

// As in start.cpp: a strong reference would keep programs with other C libraries from starting.
extern "C" __attribute__((weak)) int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(),
                                                       void* dso);
extern "C" __attribute__((visibility("hidden"))) void* __dso_handle;

namespace xpurun::preload {

namespace {

// Their allocators record the caller of each function, and write more than this library knows of.
constexpr const char* kSanitizers[] = {"__asan_init", "__tsan_init", "__msan_init", "__lsan_init",
                                       "__hwasan_init"};

// The program waits for the answer before it starts. Most Python programs without a rank's variables are no
// ranks.
constexpr uint64_t kRankPatienceNs = 1'000'000'000;
constexpr uint64_t kOtherPatienceNs = 50'000'000;

bool has_sanitizer() {
  for (const char* name : kSanitizers) {
    if (dlsym(RTLD_DEFAULT, name) != nullptr) {
      return true;
    }
  }
  dlerror();  // the program's next dlerror() must not report these failed searches
  return false;
}

bool may_be_rank(ProcessKind kind) {
  return kind != ProcessKind::other && !(has_rank_environment() && is_started_by_rank());
}

RunEnv g_run{};  // written by the constructor only

bool is_usable(const wire::HeapSegment& memory) {
  return memory.magic == wire::kHeapSegmentMagic && memory.version == wire::kHeapSegmentVersion &&
         memory.bytes == sizeof(wire::HeapSegment);
}

void sample(uint64_t patience_ns) {
  void* memory = request_memory(g_run.socket, make_notice(wire::NoticeKind::heap_attach),
                                sizeof(wire::HeapSegment), patience_ns);
  if (memory == nullptr) {
    return;
  }
  auto* segment = static_cast<wire::HeapSegment*>(memory);
  if (!is_usable(*segment) || !start_heap_sampling(*segment)) {
    munmap(memory, sizeof(wire::HeapSegment));
    return;
  }
  segment->pid.store(static_cast<uint32_t>(getpid()));
  prepare_heap_stacks();
  static bool is_registered = false;  // a forked child keeps the handler
  if (!is_registered) {
    __register_atfork(nullptr, nullptr, stop_heap_functions, &__dso_handle);
    is_registered = true;
  }
  sample_heap_functions();
}

}  // namespace

void start_heap(const RunEnv& run, ProcessKind kind) {
  g_run = run;
  if (may_be_rank(kind) && !has_sanitizer()) {
    sample(has_rank_environment() ? kRankPatienceNs : kOtherPatienceNs);
  }
}

extern "C" __attribute__((visibility("default"))) void xpurun_sample_worker() {
  if (g_run.supervisor != 0 && !is_heap_sampled() && !has_sanitizer()) {
    sample(kRankPatienceNs);
  }
}

}  // namespace xpurun::preload
