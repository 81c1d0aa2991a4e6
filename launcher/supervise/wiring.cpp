// Which part of the supervisor tells which other part.
#include "common/base/tr.h"
#include "launcher/supervise/reporting/live_view.h"
#include "launcher/supervise/supervisor.h"

#include <fmt/format.h>

#include <functional>
#include <utility>

namespace xpurun::launcher {

Reaper::Hooks Supervisor::reaper_hooks() {
  return {.may_be_helper =
              [this](base::Pid pid) {
                return dumps_.busy() || evidence_.busy() || reports_.busy() || notifier_.busy() ||
                       captures_.busy() || gpu_watch_.is_helper(pid) || nodes_.is_helper(pid) ||
                       logs_.is_relay(pid);
              },
          .helper_ended =
              [this](base::Pid pid, base::WaitStatus status) {
                return dumps_.helper_ended(pid, status) || evidence_.helper_ended(pid, status) ||
                       reports_.helper_ended(pid, status) || notifier_.helper_ended(pid, status) ||
                       captures_.helper_ended(pid, status) || gpu_watch_.helper_ended(pid, status) ||
                       nodes_.helper_ended(pid, status) || logs_.helper_ended(pid, status);
              },
          .discover = [this] { watcher_.discover(); },
          .died = [this](const TrackedProcess& p, base::WaitStatus status,
                         bool failed) { deaths_.process_died(p, status, failed); },
          .command_ended = [this](base::WaitStatus status) { ending_.command_ended(status); }};
}

JobEnding::Hooks Supervisor::ending_hooks() {
  return {.command_ended =
              [this] {
                status_line_.stop();
                watcher_.stop();
                evidence_.command_ended();
                nodes_.command_ended();
              },
          .give_up =
              [this](const std::string& why) {
                dumps_.give_up(why);
                evidence_.give_up(why);
                reports_.give_up(why);
              },
          .dumping = [this] { return dumps_.busy() || evidence_.busy(); },
          .drain_logs = [this](std::function<void()> done) { drain_logs(std::move(done)); },
          .record =
              [this] {
                notices_.release_all();
                end_record_.write();
              },
          .request_report =
              [this] {
                if (options_.report) {
                  reports_.request();
                }
                return options_.report;
              },
          .reporting = [this] { return reports_.busy() || nodes_.busy(); },
          .print_end = [this] { verdicts_.print_end(); },
          .tell_end = [this](std::function<void()> done) { notifier_.end(std::move(done)); }};
}

Watcher::Listener Supervisor::watch_listener() {
  return {.stall_raised = [this](base::Rank longest) { stalls_.raised(longest); },
          .stall_escalated = [this] { stalls_.escalated(); },
          .stall_cleared = [this] { stalls_.cleared(); },
          .rank_found =
              [this] {
                if (restart_.started_again()) {
                  verdicts_.ranks_restarted();
                  reports_.request();
                }
                listeners_.open_metrics();
                nodes_.rank_found();
                journal_.changed();
              },
          .table_updated =
              [this] {
                journal_.manifest().processes = table_.records();
                journal_.manifest().world_size = table_.world_size();
                journal_.positions_changed();
              },
          .warn = [this](const std::string& warning) { say(warning); }};
}

DumpCoordinator::Hooks Supervisor::dump_hooks() {
  return {.discover = [this] { watcher_.discover(); },
          .observations = [this] { return watcher_.observations(); },
          .save_calls =
              [this](const std::string& directory) {
                timing_.save(directory);
                python_.save_spans();
                return calls_.save(fmt::format("{}/{}", directory, model::kCollectivesFile));
              },
          .release = [this](base::Pid pid) { notices_.release(pid); },
          .begun = [this](const model::DumpManifest& dump,
                          const std::string& directory) { evidence_.dump_begun(dump, directory); },
          .stacks_written = [this] { stalls_.report(); },
          .dumped =
              [this](base::MonoNs duration, bool for_stall) {
                watcher_.held_up(duration);
                stalls_.dumped(for_stall);
              },
          .may_go_on = [this] { return !ending_.state().has_ended(); },
          .idle = [this] { ending_.proceed(); }};
}

static CpuLosses cpu_losses(const std::optional<model::LoadSample>& load) {
  const auto seconds = [](int64_t ns) { return ns < 0 ? -1 : base::ns_to_s(ns); };
  return load ? CpuLosses{.ready_s = seconds(load->run_delay_ns),
                          .throttled_s = seconds(load->throttled_ns),
                          .stolen_s = seconds(load->stolen_ns)}
              : CpuLosses{};
}

TimingService::Hooks Supervisor::timing_hooks() {
  return {.progress =
              [this](base::Pid pid) {
                const double still_s = watcher_.still_s(pid).value_or(-1);
                const double timeout_s = options_.hang_timeout_s;
                const bool stall = stalls_.open();
                const TrackedProcess* p = table_.find(pid);
                const auto seen = speed_.watch().rank(p == nullptr ? base::kNoRank : p->record.rank);
                return TimingService::RankProgress{.still_s = still_s,
                                                   .hung = stall && timeout_s > 0 && still_s >= timeout_s,
                                                   .steps = seen.steps,
                                                   .step_s = seen.step_s,
                                                   .cpu = cpu_losses(python_.load(pid))};
              },
          .dumps =
              [this] {
                return TimingService::DumpActivity{dumps_.busy(), dumps_.last_duration_s()};
              },
          .unknown_process = [this] { watcher_.discover(); },
          .first_gpu_use =
              [this] {
                speed_.watch().gpu_used();
                gpu_watch_.start();
                listeners_.open_metrics();
              },
          .step_s = [this] { return speed_.watch().step_s(); },
          .every_call_timed = [this](bool on) { speed_.watch().every_call_timed(on, loop_.now()); },
          .slow_events = [this] { return speed_.watch().slow_events(); },
          .gpus = [this] { return gpu_watch_.throttling(); }};
}

NodeHandler::Hooks Supervisor::node_hooks() {
  return {.started = [this](base::Pid pid) { table_.ignore(pid); },
          .calls =
              [this] {
                model::CollectiveFacts calls;
                python_.add_calls(calls);
                return newest_calls(calls);
              },
          .collecting_evidence = [this] { return evidence_.busy(); },
          .was_interrupted = [this] { return signals_.was_interrupted(); },
          .reporting = [this] { return reports_.busy(); },
          .request_report = [this] { reports_.request(); },
          .judged = [this](const ReportResult& result) { verdicts_.take(result); },
          .stall_cleared = [this] { stalls_.cleared_everywhere(); },
          .end_the_job = [this] { verdicts_.end_the_job(); },
          .idle = [this] { reports_done(); },
          .control =
              [this](const std::string& request, const std::function<void(std::string)>& reply) {
                control_.handle_text(request, reply);
              },
          .say = [this](const std::string& line) { say(line); }};
}

VerdictHandler::Hooks Supervisor::verdict_hooks() {
  return {.diagnose = [this] { return dumps_.diagnose(); },
          .several_ranks = [this] { return table_.multi_process(); },
          .end_the_job =
              [this] {
                reaper_.ledger().we_are_ending_the_job();
                journal_.save_now();
                ending_.terminate(options_.grace_s);
              },
          .restart_obstacle = [this] { return restart_.obstacle(); },
          .restart_the_ranks =
              [this] {
                journal_.save_now();
                restart_.begin(options_.grace_s);
              },
          .hang_found = [this](const model::Stall& i) { notifier_.events().hang(i); },
          .hang_passed = [this](const model::Stall& i) { notifier_.events().recovered(i); },
          .collecting_evidence = [this] { return evidence_.busy() || dumps_.busy(); },
          .publish = [this](const model::Verdict& v) { publish(v, options_.termination_log, dir_.absolute); },
          .told = [this] { nodes_.verdict_told(); },
          .say_sentence = [this](const model::Verdict& v) { messages_.say(v.sentence, colour_of(v)); },
          .say_report =
              [this] {
                messages_.say_file(base::tr("report"), host_, model::RunDir(dir_.absolute).report_html());
              },
          .say = [this](const std::string& line) { say(line); }};
}

SignalHandler::Hooks Supervisor::signal_hooks() {
  return {
      .child_ended = [this] { reaper_.reap(); },
      .dump =
          [this] {
            dumps_.request(
                {.why = model::DumpReason::signal, .reply = [this](const std::string& dir, size_t processes) {
                   const base::Speaking speaking(options_.language);
                   say(base::tr("stacks of {} processes are in {}", processes, journal_.dir().file(dir)));
                 }});
          },
      .hide_status_line = [this] { status_line_.hide(); },
      .terminal_hung_up = [this] { ending_.terminal_hung_up(); },
      .give_up_logs = [this] { return logs_.give_up(); },
      .stop_telling = [this] { notifier_.give_up("xpurun was interrupted"); },
      .kill_job = [this] { ending_.kill_now(); },
      .detach = [this] { ending_.detach(); },
      .say = [this](const std::string& line) { say(line); }};
}

NoticeRouter::Hooks Supervisor::notice_hooks() {
  return {.discover = [this] { watcher_.discover(); },
          .crashed = std::bind_front(&CrashHandler::process_crashed, &crashes_),
          .attach_timing = std::bind_front(&TimingService::attach, &timing_),
          .attach_spans = std::bind_front(&PythonReports::attach, &python_),
          .attach_capture = std::bind_front(&ActivitySession::attach, &activity_),
          .answer = std::bind_front(&NoticeServer::answer_attach, &notices_)};
}

StallHandler::Nodes Supervisor::stall_nodes() {
  return {.raised = [this] { return nodes_.stall_raised(); },
          .escalated = [this] { return nodes_.stall_escalated(); },
          .cleared = [this] { return nodes_.stall_cleared(); },
          .lead = [this] { return nodes_.leads(); },
          .judge_again = [this] { nodes_.judge_again(); }};
}

EndRecord::Hooks Supervisor::end_record_hooks() {
  return {.find_deaths = [this] { reaper_.find_unnoticed_deaths(); },
          .restart_pending = [this] { return restart_.pending(); },
          .was_interrupted = [this] { return signals_.was_interrupted(); },
          .finish_files =
              [this] {
                timing_.finish();
                gpu_watch_.finish();
                python_.save_spans();
              },
          .recorded = [this] { nodes_.job_recorded(); }};
}

ControlApi::Hooks Supervisor::control_hooks() {
  return {.job_has_ended = [this] { return ending_.state().has_ended(); },
          .job_is_ending = [this] { return ending_.state().is_ending(); },
          .status = [this] { return live_status(); },
          .complete = [this](LiveStatus& status) { nodes_.complete(status); },
          .better_informed = [this] { return nodes_.better_informed(); },
          .dump =
              [this](std::function<void(const std::string&)> done) {
                dumps_.request(
                    {.why = model::DumpReason::request,
                     .reply = [done = std::move(done)](const std::string& dir, size_t) { done(dir); }});
              },
          .capture = std::bind_front(&CaptureRunner::start, &captures_),
          .change_traced = std::bind_front(&PythonReports::change_traced, &python_),
          .traced = [this] { return python_.traced(); },
          .step_s = [this] { return speed_.watch().step_s(); },
          .nodes = [this] { return nodes_.list(); },
          .ask = [this](const std::string& node, const std::string& verb, const std::string& request,
                        NodeQuestions::Done done) { nodes_.ask(node, verb, request, std::move(done)); }};
}

}  // namespace xpurun::launcher
