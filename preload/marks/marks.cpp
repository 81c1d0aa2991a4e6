#include "preload/marks/marks.h"

#include "common/wire/python_segment.h"
#include "preload/core/clock.h"
#include "preload/process/crash_handler.h"
#include "preload/process/rank_identity.h"
#include "preload/process/shared_memory.h"
#include "preload/record/step_anchor.h"

#include <atomic>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// As in start.cpp: a strong reference would keep programs with other C libraries from starting.
extern "C" __attribute__((weak)) int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(),
                                                       void* dso);
extern "C" __attribute__((visibility("hidden"))) void* __dso_handle;

namespace xpurun::preload {

namespace {

// Numbers of model::Stage.
enum class Stage : uint8_t { forward = 2, backward = 3, mark = 10 };

enum class Phase : uint32_t { disabled, idle, starting, ready, refused };

constexpr uint32_t kFirstText = 4;  // 0 is no text
constexpr size_t kJobs = 1024;      // of which the name is known; a power of two
constexpr int kMostBatch = 0xffff;

sockaddr_un g_socket;
constinit std::atomic<Phase> g_phase{Phase::disabled};
constinit std::atomic<wire::PythonSegment*> g_memory{nullptr};
constinit std::atomic<uint64_t> g_spans{0};
constinit std::atomic<uint32_t> g_text_bytes{kFirstText};
constinit std::atomic<uint32_t> g_step_name{0};
constinit bool g_is_rank = false;  // when the memory was requested
// Key of the job in the upper, its name in the lower half.
constinit std::atomic<uint64_t> g_job_names[kJobs]{};

// The pass that a thread is in.
struct Begun {
  uint64_t begin_ns = 0;  // 0: nothing is recorded
  int64_t cpu_ns = 0;
  uint32_t name = 0;
  uint32_t depth = 0;
};
thread_local Begun t_begun[2];

// The memory belongs to the parent. A process that a rank forks is a worker of that rank; other forked
// processes may be ranks.
void after_fork_in_child() {
  g_memory.store(nullptr);
  g_spans.store(0);
  g_text_bytes.store(kFirstText);
  g_step_name.store(0);
  for (auto& one : g_job_names) {
    one.store(0);
  }
  t_begun[0] = t_begun[1] = {};
  g_phase.store(g_is_rank ? Phase::refused : Phase::idle);
}

bool is_usable(const wire::PythonSegment& memory) {
  return memory.magic == wire::kPythonSegmentMagic && memory.version == wire::kPythonSegmentVersion &&
         memory.bytes == sizeof(wire::PythonSegment);
}

void attach() {
  Phase expected = Phase::idle;
  if (!g_phase.compare_exchange_strong(expected, Phase::starting)) {
    return;
  }
  static constinit bool follows_forks = false;
  const int saved_errno = errno;
  void* memory =
      request_memory(g_socket, make_notice(wire::NoticeKind::marks_attach), sizeof(wire::PythonSegment));
  auto* segment = static_cast<wire::PythonSegment*>(memory);
  if (segment != nullptr && !is_usable(*segment)) {
    munmap(memory, sizeof(wire::PythonSegment));
    segment = nullptr;
  }
  if (segment != nullptr) {
    // Once per process: a fork handler cannot be removed, and a second one would only repeat its work.
    if (!follows_forks) {
      __register_atfork(nullptr, nullptr, after_fork_in_child, &__dso_handle);
      follows_forks = true;
    }
    g_is_rank = has_rank_environment();
    segment->pid = static_cast<uint32_t>(getpid());
    g_memory.store(segment, std::memory_order_release);
  }
  g_phase.store(segment != nullptr ? Phase::ready : Phase::refused);
  errno = saved_errno;
}

// Null if nothing is to be recorded.
wire::PythonSegment* memory_for_marks() {
  if (g_phase.load(std::memory_order_relaxed) == Phase::idle) {
    attach();
  }
  wire::PythonSegment* memory = g_memory.load(std::memory_order_acquire);
  return memory != nullptr && __atomic_load_n(&memory->records_spans, __ATOMIC_RELAXED) != 0 ? memory
                                                                                             : nullptr;
}

// 0 if there is no room. Two threads may write the same text twice.
uint32_t put_text(wire::PythonSegment& memory, const char* text, uint32_t length) {
  const uint32_t bytes = (static_cast<uint32_t>(sizeof length) + length + 3) & ~3u;
  // Tested before the addition, so that the counter cannot wrap around once the text is full.
  if (g_text_bytes.load(std::memory_order_relaxed) + bytes > wire::kTorchTextBytes) {
    return 0;
  }
  const uint32_t at = g_text_bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (at + bytes > wire::kTorchTextBytes) {
    return 0;
  }
  memcpy(memory.text + at, &length, sizeof length);
  memcpy(memory.text + at + sizeof length, text, length);
  __atomic_store_n(&memory.text_bytes, at + bytes, __ATOMIC_RELEASE);
  return at;
}

uint32_t name_of_job(wire::PythonSegment& memory, int micro_batch, int chunk) {
  const uint32_t key = static_cast<uint32_t>(micro_batch) << 16 | static_cast<uint32_t>(chunk + 1);
  // Each job has one slot. Jobs that share a slot replace each other, and their names are then written again.
  std::atomic<uint64_t>& slot =
      g_job_names[(static_cast<uint32_t>(micro_batch) * 8 + static_cast<uint32_t>(chunk + 1)) % kJobs];
  const uint64_t known = slot.load(std::memory_order_relaxed);
  if (static_cast<uint32_t>(known >> 32) == key && static_cast<uint32_t>(known) != 0) {
    return static_cast<uint32_t>(known);
  }
  char text[48];
  const int length = chunk < 0 ? snprintf(text, sizeof(text), "micro-batch %d", micro_batch)
                               : snprintf(text, sizeof(text), "micro-batch %d chunk %d", micro_batch, chunk);
  const uint32_t name = put_text(memory, text, static_cast<uint32_t>(length));
  slot.store(uint64_t{key} << 32 | name, std::memory_order_relaxed);
  return name;
}

int64_t thread_cpu_ns() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return int64_t{used.tv_sec} * 1'000'000'000 + used.tv_nsec;
}

void add_span(wire::PythonSegment& memory, Stage stage, uint32_t name, uint64_t begin_ns, uint64_t end_ns,
              int64_t cpu_ns) {
  const uint64_t number = g_spans.fetch_add(1, std::memory_order_relaxed) + 1;
  wire::PythonSpan& span = memory.spans[(number - 1) % wire::kPythonSpans];
  // Number 0 marks a span that is being written. The supervisor may read the ring at any moment.
  __atomic_store_n(&span.number, 0, __ATOMIC_RELEASE);
  span.begin_ns = begin_ns;
  span.duration_ns = end_ns - begin_ns;
  span.cpu_ns = cpu_ns;
  span.sequence = 0;
  span.bytes = 0;
  span.name = name;
  span.place = 0;
  span.thread = static_cast<uint32_t>(syscall(SYS_gettid));
  span.group = 0;
  span.stage = static_cast<uint8_t>(stage);
  span.flags = 0;
  __atomic_store_n(&span.number, number, __ATOMIC_RELEASE);
}

void mark_step() {
  wire::PythonSegment* memory = memory_for_marks();
  if (memory == nullptr) {
    return;
  }
  const uint64_t now = now_ns();
  step_ended(now);
  uint32_t name = g_step_name.load(std::memory_order_relaxed);
  if (name == 0) {
    name = put_text(*memory, "step", 4);
    g_step_name.store(name, std::memory_order_relaxed);
  }
  add_span(*memory, Stage::mark, name, now, now, -1);
}

Begun& begun_of(Stage stage) {
  return t_begun[stage == Stage::forward ? 0 : 1];
}

// A pass inside of a pass of the same kind is a part of it.
void begin_pass(Stage stage, int micro_batch, int chunk) {
  Begun& begun = begun_of(stage);
  if (begun.depth++ > 0 || micro_batch < 0 || micro_batch > kMostBatch || chunk >= kMostBatch) {
    return;
  }
  wire::PythonSegment* memory = memory_for_marks();
  if (memory == nullptr) {
    return;
  }
  begun.name = name_of_job(*memory, micro_batch, chunk < 0 ? -1 : chunk);
  begun.cpu_ns = thread_cpu_ns();
  begun.begin_ns = now_ns();
}

void end_pass(Stage stage) {
  Begun& begun = begun_of(stage);
  if (begun.depth == 0 || --begun.depth > 0 || begun.begin_ns == 0) {
    return;
  }
  const uint64_t end = now_ns();
  const Begun ended = begun;
  begun = {};
  if (wire::PythonSegment* memory = memory_for_marks()) {
    add_span(*memory, stage, ended.name, ended.begin_ns, end, thread_cpu_ns() - ended.cpu_ns);
  }
}

}  // namespace

void prepare_marks(const sockaddr_un& socket) {
  g_socket = socket;
  g_phase.store(Phase::idle);
}

}  // namespace xpurun::preload

#define XPURUN_EXPORT extern "C" __attribute__((visibility("default")))

XPURUN_EXPORT void xpurun_step() {
  xpurun::preload::mark_step();
}
XPURUN_EXPORT void xpurun_forward_begin(int micro_batch, int chunk) {
  xpurun::preload::begin_pass(xpurun::preload::Stage::forward, micro_batch, chunk);
}
XPURUN_EXPORT void xpurun_forward_end() {
  xpurun::preload::end_pass(xpurun::preload::Stage::forward);
}
XPURUN_EXPORT void xpurun_backward_begin(int micro_batch, int chunk) {
  xpurun::preload::begin_pass(xpurun::preload::Stage::backward, micro_batch, chunk);
}
XPURUN_EXPORT void xpurun_backward_end() {
  xpurun::preload::end_pass(xpurun::preload::Stage::backward);
}
