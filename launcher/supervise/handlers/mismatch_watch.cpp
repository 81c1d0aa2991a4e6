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
    const base::MonoNs before = loop_.cpu();
    look();
    const double taken_s = base::ns_to_s(loop_.cpu() - before);
    look_after(seen_ ? kAgainS : std::max(kShortestS, kShare * taken_s));
  });
}

void MismatchWatch::look() {
  Seen now{.calls = hooks_.calls()};
  const auto found = report::find_silent_mismatch(now.calls, said_);
  if (!found) {
    seen_.reset();
    return;
  }
  now.found = *found;
  // The record may have lost the call in the meantime.
  if (seen_ && seen_->found.collective.id == found->collective.id) {
    say(seen_->found, seen_->calls);
    seen_.reset();
    return;
  }
  seen_ = std::move(now);
}

void MismatchWatch::finish() {
  stop();
  const model::CollectiveFacts calls = hooks_.calls();
  while (const auto found = report::find_silent_mismatch(calls, said_)) {
    say(*found, calls);
  }
}

void MismatchWatch::say(const report::CallFinding& found, const model::CollectiveFacts& calls) {
  said_.push_back(found.collective);
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
