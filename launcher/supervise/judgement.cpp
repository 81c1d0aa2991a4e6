#include "launcher/supervise/judgement.h"

#include "common/base/tr.h"
#include "common/model/run_dir.h"
#include "report/diagnosis/ends/endings.h"
#include "report/diagnosis/title.h"

#include <utility>

namespace xpurun::launcher {

Judgement::Judgement(const Parts& p, const Setup& setup, Hooks hooks)
    : parts_(p),
      hooks_(std::move(hooks)),
      host_(setup.host),
      dir_(setup.dir),
      reports_({p.loop, p.storage, p.complaints}, dir_.path, setup.signal_mask),
      steps_({p.loop, p.storage, p.complaints}, dir_.path, setup.signal_mask),
      evidence_({p.journal, p.table, p.options}, evidence_setup(setup),
                [this](bool of_a_stall) {
                  // A verdict that came before is made again with the evidence; if the job is to be ended, it
                  // is ended then.
                  nodes_.evidence_collected();
                  stalls_.evidence_collected(of_a_stall);
                  hooks_.evidence_collected();
                }),
      restart_({p.loop, p.table, p.ledger},
               [this] {
                 verdicts_.ranks_restarted();
                 reports_.request();
               }),
      nodes_({p.loop, p.storage, p.journal, p.table, p.watcher, p.dumps, p.job, p.options},
             {host_, dir_.absolute, setup.signal_mask, p.complaints.fd()}, node_hooks()),
      verdicts_({p.journal, p.job, p.options}, verdict_hooks()),
      stalls_({p.journal, p.dumps, p.job, p.options}, stall_nodes(),
              {.request_report = [this] { reports_.request(); },
               .still_s = [this](base::Rank rank) { return parts_.watcher.rank_still_s(rank); },
               .close = [this](model::Stall& stall) { return verdicts_.stall_ended(stall); },
               .was_interrupted = hooks_.was_interrupted}) {
  set_report_handlers();
}

EvidenceJob::Setup Judgement::evidence_setup(const Setup& setup) {
  return {.loop = parts_.loop,
          .signal_mask = setup.signal_mask,
          .stderr_fd = parts_.complaints.fd(),
          .started = helper_started()};
}

void Judgement::set_report_handlers() {
  reports_.set_options({.page = parts_.options.report,
                        .source = parts_.options.source,
                        .shared = parts_.options.share_with_group,
                        .language = parts_.options.language});
  reports_.set_handlers(
      helper_started(),
      [this](const ReportResult& result) {
        if (const auto taken = nodes_.take(result)) {
          verdicts_.take(*taken);
          judge_pending();
        }
      },
      [this] { hooks_.report_done(); });
  steps_.set_options({.of_steps = true, .language = parts_.options.language});
  steps_.set_handlers(
      helper_started(),
      [this](const ReportResult& result) {
        if (result.verdict && !parts_.job.is_ending()) {
          hooks_.steps_judged(result.spoken ? *result.spoken : *result.verdict);
        }
      },
      [] {});
  reports_.on_verdict([this](const ReportResult& result) { nodes_.take_verdict(result); });
}

// One report judges one stall. The end of a dump and of the collection of evidence asks for a report anyway.
void Judgement::judge_pending() {
  const model::Stall* stall = std::as_const(parts_.journal).open_stall();
  const bool later = parts_.dumps.busy() || evidence_.busy() || parts_.job.is_ending();
  if (stall != nullptr && stall->pending && !stall->dump.empty() && !later) {
    stalls_.report();
  }
}

void Judgement::add_helpers(HelperList& helpers) {
  helpers.add_busy(evidence_);
  helpers.add_busy(reports_);
  helpers.add_busy(steps_);
  helpers.add_known(nodes_);
}

void Judgement::rank_found() {
  restart_.rank_found();
  nodes_.rank_found();
  new_ranks_ = true;
}

// Of a restart by xpurun, the launcher's line was said with the hang.
void Judgement::processes_known() {
  const model::RunManifest& run = parts_.journal.manifest();
  if (!std::exchange(new_ranks_, false) || report::attempts(run) == attempt_) {
    return;
  }
  attempt_ = report::attempts(run);
  const base::Speaking speaking(parts_.options.language);
  const auto endings = report::endings_of(run);
  const auto failures = report::failures_before_restarts(endings, run);
  if (!failures.empty()) {
    const report::Ending& last = *failures.back();
    parts_.messages.say(base::tr("the launcher has started the ranks again, attempt {}: rank {} {}", attempt_,
                                 last.process->rank, report::how_it_ended(last)));
  }
}

void Judgement::command_ended() {
  steps_.give_up("the job has ended");
  evidence_.command_ended(dir_.absolute);
  nodes_.command_ended();
}

void Judgement::give_up(const std::string& why) {
  evidence_.give_up(why);
  reports_.give_up(why);
}

bool Judgement::request_last_report() {
  const model::RunManifest& run = parts_.journal.manifest();
  const bool wanted = parts_.options.report || run.exit_status != 0 || !run.stalls.empty();
  if (wanted) {
    reports_.request();
  }
  return wanted;
}

std::function<void(base::Pid)> Judgement::helper_started() {
  return [this](base::Pid pid) { parts_.table.ignore(pid); };
}

std::function<void(const std::string&)> Judgement::say() {
  return [this](const std::string& line) { parts_.messages.say(line); };
}

NodeHandler::Hooks Judgement::node_hooks() {
  return {.started = helper_started(),
          .calls = [this] { return newest_calls(hooks_.python_calls()); },
          .collecting_evidence = [this] { return evidence_.busy(); },
          .was_interrupted = hooks_.was_interrupted,
          .reporting = [this] { return reports_.busy(); },
          .request_report = [this] { reports_.request(); },
          .judged = [this](const ReportResult& result) { verdicts_.take(result); },
          .stall_cleared = [this] { stalls_.cleared_everywhere(); },
          .end_the_job = [this] { verdicts_.end_the_job(); },
          .idle = hooks_.report_done,
          .control = hooks_.control,
          .say = say()};
}

VerdictHandler::Hooks Judgement::verdict_hooks() {
  return {.diagnose = [this] { return parts_.dumps.diagnose(); },
          .several_ranks = [this] { return parts_.table.multi_process(); },
          .was_interrupted = hooks_.was_interrupted,
          .end_the_job = hooks_.end_the_job,
          .restart_obstacle = [this] { return restart_.obstacle(); },
          .restart_the_ranks =
              [this] {
                parts_.journal.save_now();
                restart_.begin(parts_.options.grace_s);
              },
          .hang_found = [this](const model::Stall& i) { parts_.notifier.events().hang(i); },
          .hang_passed = [this](const model::Stall& i) { parts_.notifier.events().recovered(i); },
          .collecting_evidence = [this] { return evidence_.busy() || parts_.dumps.busy(); },
          .publish =
              [this](const model::Verdict& v) { publish(v, parts_.options.termination_log, dir_.absolute); },
          .reported = [this] { nodes_.verdict_reported(); },
          .say_sentence =
              [this](const model::Verdict& v) {
                const base::Speaking speaking(parts_.options.language);
                for (const std::string& line : report::sentence_lines(v)) {
                  parts_.messages.say(line, line.starts_with(' ') ? std::nullopt : colour_of(v));
                }
              },
          .say_report =
              [this] {
                if (parts_.options.report) {
                  parts_.messages.say_file(base::tr("report"), host_,
                                           model::RunDir(dir_.absolute).report_html());
                }
              },
          .say = say()};
}

StallHandler::Nodes Judgement::stall_nodes() {
  return {.raised = [this] { return nodes_.stall_raised(); },
          .changed = [this](bool escalated) { return nodes_.stall_changed(escalated); },
          .cleared = [this] { return nodes_.stall_cleared(); },
          .lead = [this] { return nodes_.leads(); },
          .judge_again = [this] { nodes_.judge_again(); }};
}

}  // namespace xpurun::launcher
