#include "stackdump/resolve/raise_watch.h"

#include "common/base/clock.h"
#include "common/base/os/procfs.h"
#include "stackdump/ptrace/traced_process.h"

#include <algorithm>
#include <ctime>
#include <iterator>
#include <utility>

namespace xpurun::stackdump {

namespace {

constexpr size_t kLooks = 400;  // a handler that does nothing takes a small part of the loop's time
constexpr std::ptrdiff_t kOftenMet = 3;
constexpr base::MonoNs kLongestNs = 1'500'000'000;  // without a CPU, the thread stays where it is
constexpr uint64_t kRanNs = 50'000;                 // less may not have left that place
constexpr int64_t kStopNs = 100'000'000;            // the thread needs a CPU to reach its stop
// Between two looks, in turn: no distance is a multiple of another.
constexpr int64_t kPausesNs[] = {170'000, 310'000, 230'000, 410'000};

bool same_line(const HandledException& a, const HandledException& b) {
  const bool both = !a.traceback.empty() && !b.traceback.empty();
  return a.type == b.type && both && a.traceback.back().frame.code == b.traceback.back().frame.code &&
         a.traceback.back().line == b.traceback.back().line;
}

}  // namespace

HandledException met_often(std::vector<HandledException> looks) {
  for (auto look = looks.rbegin(); look != looks.rend(); ++look) {
    if (std::count_if(looks.begin(), looks.end(),
                      [&](const HandledException& other) { return same_line(*look, other); }) >= kOftenMet) {
      return std::move(*look);
    }
  }
  return {};
}

HandledException caught_again(base::Pid pid, LiveMemory& memory, const Offsets& offsets, Addr state) {
  const base::ProcFs proc;
  const base::MonoNs end = base::mono_ns() + kLongestNs;
  std::vector<HandledException> met;
  uint64_t ran = 0;
  size_t looks = 0;
  for (size_t i = 0; looks < kLooks && base::mono_ns() < end && offsets.thread_handled != kAbsent; ++i) {
    if (const uint64_t now = proc.main_run_time(pid).cpu_ns; now >= ran + kRanNs) {
      ran = now;
      ++looks;
      const auto traced = TracedProcess::stop_thread(pid, pid, base::mono_ns() + kStopNs);
      if (HandledException one = traced ? handled_by(memory, offsets, state) : HandledException();
          !one.type.empty()) {
        met.push_back(std::move(one));
        if (HandledException often = met_often(met); !often.type.empty()) {
          return often;
        }
      }
    }
    const timespec pause{.tv_sec = 0, .tv_nsec = kPausesNs[i % std::size(kPausesNs)]};
    ::nanosleep(&pause, nullptr);
  }
  return {};
}

}  // namespace xpurun::stackdump
