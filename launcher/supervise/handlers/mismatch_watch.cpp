#include "launcher/supervise/handlers/mismatch_watch.h"

#include "common/base/clock.h"
#include "common/base/tr.h"
#include "report/diagnosis/call_words.h"
#include "report/diagnosis/collectives/mismatch.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::launcher {

void MismatchWatch::look_after(double seconds) {
  timer_ = loop_.after(seconds, [this] {
    const base::MonoNs before = base::thread_cpu_ns();
    look();
    look_after(std::max(kShortestS, kShare * base::ns_to_s(base::thread_cpu_ns() - before)));
  });
}

void MismatchWatch::look() {
  const auto found = report::find_silent_mismatch(hooks_.calls());
  const std::string now =
      found ? fmt::format("{} {}", found->collective.id, found->collective.sequence) : std::string();
  const bool again = !now.empty() && now == seen_;
  seen_ = now;
  if (again && said_.insert(found->collective.id).second) {
    hooks_.say(
        base::tr("warning: the job goes on with wrong data: {}",
                 report::fault_text(*found, [](const auto& ranks) { return report::rank_words(ranks); })));
  }
}

}  // namespace xpurun::launcher
