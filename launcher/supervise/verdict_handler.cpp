#include "launcher/supervise/verdict_handler.h"

#include "common/base/strings.h"
#include "report/diagnosis/diagnose.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::launcher {

namespace {

// A job that has gone well says nothing, and neither does a job whose only process failed by itself: its own
// output has said everything.
bool worth_telling(const model::Verdict& v, bool incidents, bool several_ranks) {
  if (v.kind == model::VerdictKind::none || v.kind == model::VerdictKind::running) {
    return incidents;
  }
  return several_ranks || v.kind == model::VerdictKind::hang || v.kind == model::VerdictKind::crash ||
         incidents;
}

}  // namespace

void VerdictHandler::take(const ReportResult& result) {
  no_report_ = result.problem;
  const model::Verdict verdict = result.verdict ? *result.verdict : hooks_.diagnose();
  parts_.journal.manifest().verdict = verdict;
  if (verdict.kind == model::VerdictKind::hang) {
    take_hang(verdict);
  }
  parts_.journal.save_now();
}

// Meanwhile the ranks may have moved again, or the job may have ended: it is the verdict on that stall all
// the same.
void VerdictHandler::take_hang(const model::Verdict& verdict) {
  for (model::Incident& incident : parts_.journal.manifest().incidents) {
    if (incident.dump == verdict.dump) {
      const bool first = incident.verdict.kind != verdict.kind;
      incident.verdict = verdict;
      if (first && incident.cleared_s >= 0 && !parts_.job.is_recorded()) {
        announce(verdict);
        say_progress_again(incident);
      }
    }
  }
  if (parts_.journal.open_incident() == nullptr || parts_.job.is_recorded()) {
    return;
  }
  if (must_end_the_job(verdict)) {
    // The evidence follows as the last lines, behind whatever the dying job prints.
    hooks_.say(verdict.sentence);
    end_the_job();
  } else {
    announce(verdict);
  }
}

bool VerdictHandler::stall_cleared() {
  model::Incident* incident = parts_.journal.open_incident();
  if (incident == nullptr) {
    return false;
  }
  incident->cleared_s = parts_.journal.elapsed_s();
  parts_.journal.manifest().verdict = {};
  parts_.journal.manifest().verdict.kind = model::VerdictKind::running;
  parts_.journal.save_now();
  say_progress_again(*incident);
  return true;
}

void VerdictHandler::say_progress_again(const model::Incident& incident) {
  if (announced_.empty() || parts_.job.is_ending()) {
    return;
  }
  const double still_s = incident.cleared_s - incident.at_s + parts_.options.hang_timeout_s;
  hooks_.say(fmt::format("progress again after {}", base::human_duration(still_s)));
  announced_.clear();
}

void VerdictHandler::announce(const model::Verdict& verdict) {
  const auto lines = report::verdict_lines(verdict);
  if (lines.empty() || lines.front() == announced_) {
    return;
  }
  announced_ = lines.front();
  for (const std::string& line : lines) {
    hooks_.say(line);
  }
  hooks_.say(no_report_.empty() ? fmt::format("open {}", parts_.journal.dir().report_html())
                                : fmt::format("no report: {}", no_report_));
}

bool VerdictHandler::must_end_the_job(const model::Verdict& verdict) const {
  return parts_.options.on_hang == OnHang::kill && verdict.level == model::VerdictLevel::confirmed &&
         !parts_.job.ended_by_us;
}

void VerdictHandler::end_the_job() {
  const double grace_s = parts_.options.grace_s;
  hooks_.say(grace_s >= kForever
                 ? std::string("ending the job (--on-hang kill): TERM, and no KILL (--grace none)")
                 : fmt::format("ending the job (--on-hang kill): TERM, {} grace, KILL",
                               base::human_duration(grace_s)));
  parts_.journal.manifest().outcome = model::RunOutcome::hang;
  hooks_.end_the_job();
}

void VerdictHandler::print_end() {
  const model::RunManifest& run = parts_.journal.manifest();
  if (parts_.options.verbosity < 0 ||
      !worth_telling(run.verdict, !run.incidents.empty(), hooks_.several_ranks())) {
    return;
  }
  announced_.clear();
  announce(run.verdict);
}

}  // namespace xpurun::launcher
