#include "launcher/supervise/handlers/mismatch_watch.h"

#include "common/base/clock.h"
#include "common/base/tr.h"
#include "report/diagnosis/call_words.h"
#include "report/diagnosis/collectives/mismatch.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::launcher {

void MismatchWatch::look_after(double seconds) {
  timer_.after(seconds, [this] {
    const base::MonoNs before = base::thread_cpu_ns();
    look();
    look_after(std::max(kShortestS, kShare * base::ns_to_s(base::thread_cpu_ns() - before)));
  });
}

void MismatchWatch::look() {
  const model::CollectiveFacts calls = hooks_.calls();
  const auto found = report::find_silent_mismatch(calls);
  const std::string now =
      found ? fmt::format("{} {}", found->collective.id, found->collective.sequence) : std::string();
  const bool again = !now.empty() && now == seen_;
  seen_ = now;
  if (again) {
    say(*found, calls);
  }
}

void MismatchWatch::finish() {
  stop();
  const model::CollectiveFacts calls = hooks_.calls();
  if (const auto found = report::find_silent_mismatch(calls)) {
    say(*found, calls);
  }
}

void MismatchWatch::say(const report::CallFinding& found, const model::CollectiveFacts& calls) {
  if (!said_.insert(found.collective.id).second) {
    return;
  }
  if (said_.size() == 1) {
    hooks_.keep(calls);
  }
  const auto sentence = [&] {
    return base::tr("the job goes on with wrong data: {}",
                    report::fault_text(found, [](const auto& ranks) { return report::rank_words(ranks); }));
  };
  hooks_.report(sentence(), found.accused.empty() ? found.waiting : found.accused);
  const base::Speaking speaking(language_);
  hooks_.say(base::tr("warning: {}", sentence()));
}

}  // namespace xpurun::launcher
