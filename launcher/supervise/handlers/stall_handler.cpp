#include "launcher/supervise/handlers/stall_handler.h"

#include "common/base/output/log.h"
#include "common/base/strings.h"

#include <algorithm>
#include <utility>

namespace xpurun::launcher {

// After the signal, the ranks stand where they handle it, which explains nothing.
bool StallHandler::keeps_verdict() const {
  const auto& stalls = std::as_const(parts_.journal).manifest().stalls;
  return hooks_.was_interrupted && hooks_.was_interrupted() &&
         std::any_of(stalls.begin(), stalls.end(), [](const model::Stall& s) {
           return s.cleared_s < 0 && s.verdict.kind == model::VerdictKind::hang;
         });
}

void StallHandler::changed(const StallEvent& event) {
  if (keeps_verdict()) {
    base::log_info("stall {}: not judged again after the signal", event.stall);
    return;
  }
  switch (event.change) {
    case StallChange::raised:
      raised(event);
      break;
    case StallChange::joined:
    case StallChange::due:
      regrouped(event);
      break;
    case StallChange::judge:
    case StallChange::escalated:
      look_again(event);
      break;
    case StallChange::merged:
    case StallChange::cleared:
      ended(event);
      break;
  }
}

model::Stall* StallHandler::record_of(const StallEvent& event) {
  const auto number = numbers_.find(event.stall);
  model::Stall* stall = number == numbers_.end() ? nullptr : parts_.journal.stall(number->second);
  return stall == nullptr || stall->cleared_s >= 0 ? nullptr : stall;
}

void StallHandler::ask(model::Stall& stall) {
  stall.asked_s = parts_.journal.elapsed_s();
  stall.pending = true;
  parts_.journal.changed();
}

void StallHandler::request_dump(const model::Stall& stall, base::Rank longest) {
  parts_.dumps.request({.why = model::DumpReason::hang, .trigger = longest, .stall = stall.n, .reply = {}});
}

void StallHandler::raised(const StallEvent& event) {
  if (parts_.job.is_ending()) {
    return;
  }
  const double still_s = hooks_.still_s(event.longest);
  const double since_s = parts_.journal.elapsed_s() - still_s;
  // Another node may have opened the stall.
  model::Stall* open = parts_.journal.open_stall();
  const bool foreign = open != nullptr && open->ranks.empty();
  model::Stall& stall = foreign ? *open : parts_.journal.add_stall({}, since_s);
  stall.ranks = event.ranks;
  stall.since_s = since_s;
  stall.early = event.early;
  numbers_[event.stall] = stall.n;
  base::log_info("stall {}: no progress of {} for {}", stall.n, event.ranks.brief(),
                 base::human_duration(still_s));
  parts_.journal.changed();
  // A signal that ends the job, or somebody who waits for the answer, leaves no time to ask the other nodes.
  const bool hurried = parts_.options.judge_now || (hooks_.was_interrupted && hooks_.was_interrupted());
  if (hurried || !nodes_.raised()) {
    request_dump(stall, event.longest);
  }
}

void StallHandler::regrouped(const StallEvent& event) {
  model::Stall* stall = record_of(event);
  if (stall == nullptr || parts_.job.is_ending() || stall->action != model::HangAction::none) {
    return;
  }
  if (event.change == StallChange::due) {
    base::log_info("stall {}: no progress for {}", stall->n,
                   base::human_duration(parts_.options.hang_timeout_s));
    stall->early = false;
    stall->at_s = parts_.journal.elapsed_s();
  } else {
    base::log_info("stall {}: now of {}", stall->n, event.ranks.brief());
  }
  stall->ranks = event.ranks;
  ask(*stall);
  if (!nodes_.changed(false)) {
    request_dump(*stall, event.longest);
  }
}

// The ranks of the stall have not moved, so their stacks are still right.
void StallHandler::look_again(const StallEvent& event) {
  model::Stall* stall = record_of(event);
  if (stall == nullptr || stall->dump.empty() || parts_.job.is_ending() ||
      stall->action != model::HangAction::none) {
    return;
  }
  const bool escalated = event.change == StallChange::escalated;
  ask(*stall);
  if (nodes_.changed(escalated)) {
    return;
  }
  if (parts_.dumps.look_again(stall->dump, escalated)) {
    parts_.journal.save_now();
    hooks_.request_report();
  } else {
    parts_.dumps.request({.why = model::DumpReason::hang,
                          .trigger = event.longest,
                          .stall = stall->n,
                          .escalated = escalated,
                          .reply = {}});
  }
}

void StallHandler::ended(const StallEvent& event) {
  model::Stall* stall = record_of(event);
  numbers_.erase(event.stall);
  // The signal that ends the job has moved the ranks.
  if (event.change == StallChange::cleared && hooks_.was_interrupted && hooks_.was_interrupted()) {
    return;
  }
  if (event.change == StallChange::merged) {
    if (stall != nullptr) {
      parts_.journal.drop_stall(stall->n);
    }
  } else if (!numbers_.empty()) {
    if (stall != nullptr) {
      close(*stall);
    }
  } else if (!nodes_.cleared()) {
    cleared_everywhere();
  }
}

void StallHandler::close(model::Stall& stall) {
  if (hooks_.close(stall) && parts_.options.report && !parts_.job.has_ended()) {
    hooks_.request_report();
  }
}

void StallHandler::cleared_everywhere() {
  for (model::Stall& stall : parts_.journal.manifest().stalls) {
    if (stall.cleared_s < 0) {
      close(stall);
    }
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
