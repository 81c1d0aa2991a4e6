#include "launcher/supervise/slowdown_handler.h"

#include "report/speed/wording.h"

namespace xpurun::launcher {

namespace {
constexpr size_t kMostSlowdowns = 1000;  // in run.json
}  // namespace

void SlowdownHandler::became_slower(model::StepChange change, base::MonoNs begin) {
  change.wall_ns = begin > 0 ? base::wall_ns() - (loop_.now() - begin) : 0;
  auto& known = journal_.manifest().slowdowns;
  if (known.size() < kMostSlowdowns) {
    known.push_back({.at_s = journal_.elapsed_s(),
                     .step = change.step,
                     .wall_ns = change.wall_ns,
                     .before_s = change.before_s,
                     .after_s = change.after_s,
                     .share = change.share});
    journal_.changed();
  }
  tell_(report::slower_sentence({}, change, {}, report::RanksCompared::not_compared));
}

}  // namespace xpurun::launcher
