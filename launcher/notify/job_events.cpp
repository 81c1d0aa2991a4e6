#include "launcher/notify/job_events.h"

#include "common/base/os/wait_status.h"
#include "common/base/strings.h"
#include "launcher/os/signals.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::launcher {

using model::JobEvent;
using model::JobEventKind;

namespace {
constexpr double kWaveS = 60;
}  // namespace

JobEvent JobEvents::event(JobEventKind kind, std::string sentence) const {
  const model::RunManifest& run = parts_.journal.manifest();
  JobEvent out{.event = kind,
               .run = run.id,
               .host = run.host,
               .directory = directory_,
               .report = parts_.options.report ? model::RunDir(directory_).report_html() : std::string(),
               .wall_ns = base::wall_ns(),
               .at_s = parts_.journal.elapsed_s(),
               .sentence = std::move(sentence),
               .hangs = model::confirmed_hangs(run),
               .outcome = run.outcome,
               .exit_status = run.exit_status};
  return out;
}

void JobEvents::report(const JobEvent& event) {
  if (parts_.options.on_event_kinds.contains(event.event)) {
    report_(event);
  }
}

void JobEvents::hang(const model::Stall& stall) {
  const bool confirmed = stall.verdict.level == model::VerdictLevel::confirmed;
  int& last = confirmed ? hang_reported_ : stall_reported_;
  if (stall.n == last || (!confirmed && !stall.early)) {
    return;
  }
  last = stall.n;
  JobEvent reported = event(confirmed ? JobEventKind::hang : JobEventKind::stall, stall.verdict.sentence);
  reported.ranks = stall.verdict.ranks;
  reported.verdict = stall.verdict;
  reported.has_verdict = true;
  report(reported);
}

void JobEvents::recovered(const model::Stall& stall) {
  if (stall.n != hang_reported_ && stall.n != stall_reported_) {
    return;
  }
  const bool restarted = stall.restarted_s >= 0;
  const double end_s = restarted ? stall.restarted_s : stall.cleared_s;
  const double since_s = stall.since_s >= 0 ? stall.since_s : stall.at_s - parts_.options.hang_timeout_s;
  const double still_s = end_s - since_s;
  JobEvent reported = event(JobEventKind::recovery,
                            fmt::format("{} after {}", restarted ? "ranks started again" : "progress again",
                                        base::human_duration(still_s)));
  reported.ranks = stall.verdict.ranks;
  reported.verdict = stall.verdict;
  reported.has_verdict = true;
  report(reported);
}

bool JobEvents::first_of_a_wave() {
  const base::MonoNs now = parts_.loop.now();
  const bool first = !last_failure_ || now - *last_failure_ > base::s_to_ns(kWaveS);
  last_failure_ = now;
  return first;
}

void JobEvents::died(const TrackedProcess& process, base::WaitStatus status) {
  const model::ProcessRecord& p = process.record;
  const auto& crashes = parts_.journal.manifest().crashes;
  const auto notice = std::find_if(crashes.begin(), crashes.end(),
                                   [&](const model::CrashNotice& crash) { return crash.pid == p.pid; });
  // The status of another process's child may be unknown.
  const int signal = status.signaled() ? status.signal() : notice != crashes.end() ? notice->signal : 0;
  if (p.role != model::ProcessRole::rank || signal == 0 || !first_of_a_wave()) {
    return;
  }
  JobEvent reported = event(JobEventKind::crash, fmt::format("crash: rank {} (pid {}) died of {}", p.rank,
                                                             p.pid, base::signal_name(signal)));
  reported.ranks = model::RankSet{p.rank};
  reported.pid = p.pid;
  reported.signal = signal;
  report(reported);
}

void JobEvents::raised(const model::PythonException& exception) {
  const TrackedProcess* p = parts_.table.find(exception.pid);
  if (p == nullptr || p->record.role != model::ProcessRole::rank ||
      exception.kind != model::ExceptionKind::raised || exception.chain.front().type == "KeyboardInterrupt" ||
      parts_.ledger.ended_by_us(exception.pid) || !first_of_a_wave()) {
    return;
  }
  JobEvent reported = event(
      JobEventKind::exception,
      fmt::format("exception: rank {} raised {}", exception.rank, model::headline(exception.chain.front())));
  reported.ranks = model::RankSet{exception.rank};
  reported.pid = exception.pid;
  reported.exception = exception;
  reported.has_exception = true;
  report(reported);
}

void JobEvents::slower(const std::string& sentence, const model::RankSet& ranks) {
  JobEvent reported = event(JobEventKind::slow, sentence);
  reported.ranks = ranks;
  report(reported);
}

void JobEvents::mismatched(const std::string& sentence, const model::RankSet& ranks) {
  JobEvent reported = event(JobEventKind::mismatch, sentence);
  reported.ranks = ranks;
  report(reported);
}

void JobEvents::memory_grows(const std::string& sentence, const model::RankSet& ranks) {
  JobEvent reported = event(JobEventKind::memory, sentence);
  reported.ranks = ranks;
  report(reported);
}

void JobEvents::ended() {
  const model::Verdict& verdict = parts_.journal.manifest().verdict;
  JobEvent reported = event(JobEventKind::end, verdict.sentence);
  reported.ranks = verdict.ranks;
  reported.verdict = verdict;
  reported.has_verdict = true;
  report(reported);
}

}  // namespace xpurun::launcher
