#include "stackdump/ptrace/loop_watch.h"

#include "common/base/hash.h"
#include "common/base/os/procfs.h"
#include "stackdump/ptrace/stack_bounds.h"
#include "stackdump/ptrace/traced_process.h"

#include <ctime>
#include <unordered_map>

namespace xpurun::stackdump {

namespace {

constexpr size_t kLooks = 24;
constexpr size_t kFewestLooks = 10;
constexpr int64_t kStopNs = 200'000'000;  // the thread needs a CPU to reach its stop
// Between two looks, in turn: no distance is a multiple of another.
constexpr int64_t kPausesNs[] = {1'100'000, 2'300'000, 1'700'000, 3'100'000, 1'300'000};
// A thread that has run for less since an earlier look may not have left its instruction.
constexpr uint64_t kRanNs = 50'000;

// 0: the thread cannot be stopped, or its stack not be read.
uint64_t state_of(base::Pid pid, LiveMemory& memory, const ProcMaps& maps) {
  const auto traced = TracedProcess::stop_thread(pid, pid, base::mono_ns() + kStopNs);
  if (!traced) {
    return 0;
  }
  const TracedThread& thread = traced->threads().front();
  const auto registers = traced->registers(thread);
  const std::string vectors = traced->vector_registers(thread);
  const AddrRange stack = registers ? stack_range(*registers, maps) : AddrRange{};
  const auto bytes = memory.bytes(stack.lo, stack.size());
  if (!bytes || bytes->empty() || vectors.empty()) {
    return 0;
  }
  uint64_t out = base::hash_text(*bytes);
  for (const uint64_t value : registers->r) {
    out = base::hash_words(out, {value});
  }
  return base::hash_words(out, {base::hash_text(vectors)});
}

}  // namespace

bool comes_back(const std::vector<LoopState>& looks) {
  std::unordered_map<uint64_t, uint64_t> first;  // look at each state
  size_t met = 0;
  for (const LoopState& look : looks) {
    const auto [it, fresh] = first.try_emplace(look.state, look.ran_ns);
    met += !fresh && look.ran_ns >= it->second + kRanNs ? 1 : 0;
  }
  return looks.size() >= kFewestLooks && met * 2 >= looks.size();
}

bool main_thread_circles(base::Pid pid, LiveMemory& memory, const ProcMaps& maps) {
  const base::ProcFs proc;
  const base::MonoNs end = base::mono_ns() + kLoopWatchNs;
  std::vector<LoopState> looks;
  while (looks.size() < kLooks && base::mono_ns() < end) {
    const auto stat = proc.thread_stat(pid, pid);
    if (!stat || stat->state != 'R') {
      break;
    }
    const uint64_t ran = proc.main_run_time(pid).cpu_ns;
    const uint64_t state = state_of(pid, memory, maps);
    if (state == 0) {
      break;
    }
    looks.push_back({.state = state, .ran_ns = ran});
    const timespec pause{.tv_sec = 0, .tv_nsec = kPausesNs[looks.size() % std::size(kPausesNs)]};
    ::nanosleep(&pause, nullptr);
  }
  return comes_back(looks);
}

}  // namespace xpurun::stackdump
