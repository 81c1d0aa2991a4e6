#include "launcher/supervise/handlers/stall_handler.h"

#include "common/base/output/log.h"
#include "common/base/strings.h"

namespace xpurun::launcher {

void StallHandler::raised(base::Rank longest) {
  if (parts_.job.is_ending()) {
    return;
  }
  auto& stalls = parts_.journal.manifest().stalls;
  // Another node may have opened the stall.
  if (!open()) {
    const double now_s = parts_.journal.elapsed_s();
    stalls.push_back({.n = static_cast<int>(stalls.size()) + 1,
                      .at_s = now_s,
                      .since_s = now_s - hooks_.still_s(longest)});
  }
  base::log_info("rank {} has been still for {}", longest,
                 base::human_duration(parts_.options.hang_timeout_s));
  parts_.journal.changed();
  if (!nodes_.raised()) {
    parts_.dumps.request({.why = model::DumpReason::hang, .trigger = longest, .reply = {}});
  }
}

void StallHandler::escalated() {
  const model::Stall* stall = std::as_const(parts_.journal).open_stall();
  if (stall == nullptr || stall->dump.empty() || parts_.job.ended_by_us) {
    return;
  }
  if (!nodes_.escalated() && parts_.dumps.escalate(stall->dump)) {
    hooks_.request_report();
  }
}

void StallHandler::cleared() {
  if (!nodes_.cleared()) {
    cleared_everywhere();
  }
}

void StallHandler::cleared_everywhere() {
  if (hooks_.close() && parts_.options.report && !parts_.job.has_ended()) {
    hooks_.request_report();
  }
}

void StallHandler::report() {
  if (parts_.job.has_ended()) {
    return;
  }
  // If all nodes judge a stall together, the verdict comes from the elected node.
  if (nodes_.lead()) {
    nodes_.judge_again();
  } else {
    hooks_.request_report();
  }
}

void StallHandler::dumped(bool for_stall) {
  if (for_stall || open()) {
    report();
  }
}

void StallHandler::evidence_collected(bool of_a_stall) {
  if ((of_a_stall || open()) && !parts_.dumps.busy()) {
    report();
  }
}

}  // namespace xpurun::launcher
