#include "preload/record/counts.h"

#include <errno.h>
#include <initializer_list>
#include <sys/syscall.h>
#include <unistd.h>

namespace xpurun::preload {

namespace {

// Checking whether other threads are alive takes one system call each.
constexpr uint32_t kAskEvery = 4096;

bool has_ended(int32_t thread) {
  const int saved_errno = errno;
  // Signal 0 sends nothing and only tests whether the thread exists.
  const bool gone = syscall(SYS_tgkill, getpid(), thread, 0) != 0 && errno == ESRCH;
  errno = saved_errno;
  return gone;
}

// An unused slot, else the slot of a thread that has ended.
wire::ThreadCounts* find_counts(wire::Segment& shared) {
  const auto self = static_cast<int32_t>(syscall(SYS_gettid));
  for (const bool from_the_dead : {false, true}) {
    for (uint32_t i = 0; i < wire::kThreadSlots; ++i) {
      std::atomic<int32_t>& owner = shared.header.thread_owners[i];
      int32_t before = owner.load();
      // If a slot's owner has this thread's id, the owner was an earlier thread with the same id.
      const bool is_free = before == 0 || before == self || (from_the_dead && has_ended(before));
      if (is_free && owner.compare_exchange_strong(before, self)) {
        return &shared.threads[i];
      }
    }
  }
  return nullptr;
}

}  // namespace

void count_without_place(uint32_t op, uint64_t work) {
  wire::Segment& shared = *segment();
  if (t_thread.calls_without++ % kAskEvery == 0) {
    t_thread.counts = find_counts(shared);
  }
  if (t_thread.counts != nullptr) {
    count_call(op, work);
    return;
  }
  add(shared.ops[op].calls, 1);
  add(shared.ops[op].work, work);
}

}  // namespace xpurun::preload
