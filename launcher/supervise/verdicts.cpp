// Supervisor: what is said, and done, once the diagnosis has come back.
#include "common/base/os/io.h"
#include "common/base/output/log.h"
#include "common/base/output/terminal.h"
#include "common/base/strings.h"
#include "launcher/supervise/supervisor.h"
#include "report/diagnosis/diagnose.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <unistd.h>

namespace xpurun::launcher {

using model::VerdictKind;

namespace {

// Of what the ledgers say on the terminal; timing.json has it all.
constexpr size_t kMostLedgerLines = 3;

// A job that has gone well says nothing, and neither does one whose only process failed by itself: its own
// output has said what there is.
bool worth_telling(const model::Verdict& v, bool incidents, bool multi_process) {
  if (v.kind == VerdictKind::none || v.kind == VerdictKind::running) {
    return incidents;
  }
  return multi_process || v.kind == VerdictKind::hang || v.kind == VerdictKind::crash || incidents;
}

}  // namespace

void Supervisor::say(const std::string& line) const {
  messages_.say(line);
}

// Whatever has become of the disk and of the report, there is a verdict: without stacks if need be.
void Supervisor::take_verdict(const ReportResult& result) {
  no_report_ = result.problem;
  const model::Verdict verdict =
      result.verdict ? *result.verdict : known_dumps_.diagnose(journal_.manifest());
  journal_.manifest().verdict = verdict;
  if (verdict.kind == VerdictKind::hang) {
    take_hang(verdict);
  }
  journal_.save_now();
}

// Meanwhile the ranks may have moved again, or the job may have ended: it is the verdict on that stall all
// the same.
void Supervisor::take_hang(const model::Verdict& verdict) {
  for (model::Incident& incident : journal_.manifest().incidents) {
    if (incident.dump == verdict.dump) {
      const bool first = incident.verdict.kind != verdict.kind;
      incident.verdict = verdict;
      if (first && incident.cleared_s >= 0 && !finished_) {
        announce(verdict);
        say_progress_again(incident);
      }
    }
  }
  if (journal_.open_incident() != nullptr && !finished_) {
    if (must_end_the_job(verdict)) {
      // The evidence follows as the last lines, behind whatever the dying job prints.
      say(verdict.sentence);
      end_the_job();
    } else {
      announce(verdict);
    }
  }
}

void Supervisor::say_progress_again(const model::Incident& incident) {
  if (!announced_.empty() && !shutdown_.active() && !finishing_) {
    say(fmt::format("progress again after {}",
                    base::human_duration(incident.cleared_s - incident.at_s + options_.hang_timeout_s)));
    announced_.clear();
  }
}

void Supervisor::reports_done() {
  if (finished_) {
    print_end();
    loop_.stop();
  }
}

void Supervisor::announce(const model::Verdict& verdict) {
  const auto lines = report::verdict_lines(verdict);
  if (lines.empty() || lines.front() == announced_) {
    return;
  }
  announced_ = lines.front();
  for (const std::string& line : lines) {
    say(line);
  }
  if (verdict.kind == VerdictKind::hang) {
    for (size_t i = 0; i < std::min(ledger_says_.size(), kMostLedgerLines); ++i) {
      say(fmt::format("  NCCL: {}", ledger_says_[i]));
    }
  }
  say(no_report_.empty() ? fmt::format("open {}", journal_.dir().report_html())
                         : fmt::format("no report: {}", no_report_));
}

bool Supervisor::must_end_the_job(const model::Verdict& verdict) const {
  return options_.on_hang == OnHang::kill && verdict.level == model::VerdictLevel::confirmed &&
         !shutdown_.active();
}

void Supervisor::end_the_job() {
  say(options_.grace_s >= kForever
          ? std::string("ending the job (--on-hang kill): TERM, and no KILL (--grace none)")
          : fmt::format("ending the job (--on-hang kill): TERM, {} grace, KILL",
                        base::human_duration(options_.grace_s)));
  journal_.manifest().outcome = model::RunOutcome::hang;
  ledger_.we_are_ending_the_job();
  journal_.save_now();
  shutdown_.terminate(options_.grace_s);
}

void Supervisor::print_end() {
  const model::RunManifest& m = journal_.manifest();
  if (options_.verbosity < 0 || !worth_telling(m.verdict, !m.incidents.empty(), table_.multi_process())) {
    return;
  }
  announced_.clear();
  announce(m.verdict);
}

}  // namespace xpurun::launcher
