// Which part of the supervisor calls which other part.
#include "launcher/supervise/supervisor.h"
#include "report/diagnosis/collectives/open_calls.h"

#include <functional>
#include <utility>

namespace xpurun::launcher {

Reaper::Hooks Supervisor::reaper_hooks() {
  return {.may_be_helper = std::bind_front(&HelperList::may_be_helper, &helpers_),
          .helper_ended = std::bind_front(&HelperList::helper_ended, &helpers_),
          .unknown_ended = [this] { watcher_.discover_if_cheap(); },
          .died = std::bind_front(&DeathHandler::process_died, &deaths_),
          .command_ended = [this](base::WaitStatus status) { ending_.command_ended(status); }};
}

JobEnding::Hooks Supervisor::ending_hooks() {
  return {.command_ended =
              [this] {
                display_.stop();
                watcher_.stop();
                judgement_.command_ended();
              },
          .give_up =
              [this](const std::string& why) {
                dumps_.give_up(why);
                judgement_.give_up(why);
              },
          .dumping = [this] { return dumps_.busy() || judgement_.collecting_evidence(); },
          .late_ranks = [this](double since_end_s) { return signals_.late_ranks(since_end_s); },
          .drain_logs =
              [this](std::function<void()> done) {
                notices_.release_all();
                logs_.finish(std::move(done));
              },
          .record =
              [this] {
                notices_.release_all();
                end_record_.write();
              },
          .request_report = [this] { return judgement_.request_last_report(); },
          .reporting = [this] { return judgement_.reporting(); },
          .print_end =
              [this] {
                measurement_.speed().ended(journal_.manifest().verdict);
                judgement_.verdicts().print_end();
              },
          .notify_of_end = [this](std::function<void()> done) { notifier_.end(std::move(done)); }};
}

Watcher::Listener Supervisor::watch_listener() {
  return {.stall_changed = [this](const StallEvent& event) { judgement_.stalls().changed(event); },
          .open_calls = [this] { return report::ranks_of_open_calls(measurement_.calls().all()); },
          .native_calls = [this](base::Pid pid) { return measurement_.mpi().main_thread(pid); },
          .proved =
              [this] {
                model::RankSet gone;
                for (const model::RankObservation& o : watcher_.last_observations()) {
                  if (o.wait_status.succeeded()) {  // a launcher ends the others itself after a failure
                    gone.insert(o.rank);
                  }
                }
                for (const TrackedProcess* p : table_.living_ranks()) {
                  gone = gone.minus({p->record.rank});
                }
                return report::proved_to_stand(measurement_.calls().all(), gone);
              },
          .steps_seen = [this] { return measurement_.steps().last_end() > 0; },
          .look = [this](base::Pid pid, LookFor wanted) { looks_.look_at(pid, wanted); },
          .rank_found =
              [this] {
                judgement_.rank_found();
                listeners_.open_metrics();
                journal_.changed();
              },
          .table_updated =
              [this] {
                journal_.processes_polled(table_.records(), table_.world_size());
                judgement_.processes_known();
              },
          .warn = say()};
}

DumpCoordinator::Hooks Supervisor::dump_hooks() {
  return {
      .discover =
          [this] {
            looks_.give_up();
            watcher_.discover();
          },
      .observations = [this] { return watcher_.observations(); },
      .save_calls = [this](const std::string& directory) { return measurement_.save(directory); },
      .release = [this](base::Pid pid) { notices_.release(pid); },
      .gpu_processes = [this] { return measurement_.gpus().processes(); },
      .begun = [this](const model::DumpManifest& dump,
                      const std::string& directory) { judgement_.evidence().dump_begun(dump, directory); },
      .stacks_written = [this] { judgement_.stalls().report(); },
      .dumped =
          [this](base::MonoNs duration, bool for_stall) {
            watcher_.held_up(duration);
            judgement_.stalls().dumped(for_stall);
          },
      .may_go_on = [this] { return !ending_.state().has_ended(); },
      .idle = [this] { ending_.proceed(); }};
}

Measurement::Hooks Supervisor::measurement_hooks() {
  return {
      .stall_open = [this] { return judgement_.stalls().open(); },
      .look_for_stall = [this] { watcher_.look_for_stall(SignalHandler::kStillS, Watcher::Look::before); },
      .gpu_used = [this] { listeners_.open_metrics(); },
      .rank_ended = [this](base::Pid pid, base::WaitStatus status) { reaper_.process_died(pid, status); },
      .judge_steps = [this] { judgement_.judge_steps(); },
      .say = say()};
}

Judgement::Hooks Supervisor::judgement_hooks() {
  return {.was_interrupted = [this] { return signals_.was_interrupted(); },
          .python_calls = [this] { return measurement_.python_calls(); },
          .end_the_job =
              [this] {
                reaper_.ledger().we_are_ending_the_job();
                journal_.save_now();
                ending_.terminate(options_.grace_s);
              },
          .evidence_collected = [this] { ending_.proceed(); },
          .report_done = [this] { ending_.report_done(); },
          .steps_judged = [this](const model::Verdict& v) { measurement_.speed().judged(v); },
          .control = std::bind_front(&ControlApi::handle_text, &control_)};
}

CrashHandler::Hooks Supervisor::crash_hooks() {
  return {.look_at = [this](base::Pid pid) { watcher_.look_at(pid); },
          .was_interrupted = [this] { return signals_.was_interrupted(); },
          .release = [this](base::Pid pid) { notices_.release(pid); }};
}

DeathHandler::Hooks Supervisor::death_hooks() {
  return {.ended =
              [this](base::Pid pid, base::WaitStatus status) {
                watcher_.process_ended(pid, status);
                judgement_.nodes().process_died();
              },
          .failed = [this](const TrackedProcess& p,
                           base::WaitStatus status) { notifier_.events().died(p, status); },
          .rank_failed = [this](base::Rank rank) { judgement_.nodes().rank_failed(rank); }};
}

SignalHandler::Hooks Supervisor::signal_hooks() {
  return {.child_ended = [this] { reaper_.reap(); },
          .look_for_stall =
              [this] {
                // The signal may have reached the ranks as well (Ctrl-C, scancel, timeout): what was seen
                // before it counts.
                dumps_.leave_out_stacks();
                if (const model::Stall* open = std::as_const(journal_).open_stall(); open == nullptr) {
                  watcher_.look_for_stall(SignalHandler::kStillS, Watcher::Look::before);
                } else if (!open->dump.empty()) {
                  (void)dumps_.look_again(open->dump, false);  // how long it has lasted by now
                }
              },
          .still_elsewhere = std::bind_front(&NodeHandler::still_elsewhere, &judgement_.nodes()),
          .dump = std::bind_front(&DumpCoordinator::request, &dumps_),
          .hide_status_line = [this] { display_.hide(); },
          .terminal_hung_up = [this] { ending_.terminal_hung_up(); },
          .give_up_logs = [this] { return logs_.give_up(); },
          .stop_notifying = [this] { notifier_.give_up("xpurun was interrupted"); },
          .kill_job = [this] { ending_.kill_now(); },
          .detach = [this] { ending_.detach(); },
          .say = say()};
}

NoticeRouter::Hooks Supervisor::notice_hooks() {
  return {.started = [this](base::Pid pid) { watcher_.look_at(pid, true); },
          .crashed = std::bind_front(&CrashHandler::process_crashed, &crashes_),
          .attach_timing = std::bind_front(&TimingService::attach, &measurement_.timing()),
          .attach_spans = std::bind_front(&PythonReports::attach, &measurement_.python()),
          .attach_mpi = std::bind_front(&PythonReports::attach_mpi, &measurement_.python()),
          .attach_heap = std::bind_front(&HeapLooks::attach, &measurement_.heap()),
          .attach_capture = std::bind_front(&ActivitySession::attach, &measurement_.activity()),
          .answer = std::bind_front(&NoticeServer::answer_attach, &notices_)};
}

EndRecord::Hooks Supervisor::end_record_hooks() {
  return {.find_deaths = [this] { reaper_.find_unnoticed_deaths(); },
          .restart_pending = [this] { return judgement_.restart().pending(); },
          .interrupt = [this] { return signals_.first_interrupt(); },
          .finish_files = [this] { measurement_.finish_files(); },
          .recorded = [this] { judgement_.nodes().job_recorded(); }};
}

ControlApi::Hooks Supervisor::control_hooks() {
  NodeHandler& nodes = judgement_.nodes();
  return {.job_has_ended = [this] { return ending_.state().has_ended(); },
          .job_is_ending = [this] { return ending_.state().is_ending(); },
          .status = [this] { return live_status(); },
          .complete = [&nodes](LiveStatus& status) { nodes.complete(status); },
          .better_informed = [&nodes] { return nodes.better_informed(); },
          .dump =
              [this](std::function<void(const std::string&)> done) {
                dumps_.request(
                    {.why = model::DumpReason::request,
                     .reply = [done = std::move(done)](const std::string& dir, size_t) { done(dir); }});
              },
          .capture = std::bind_front(&CaptureRunner::start, &measurement_.captures()),
          .change_traced = std::bind_front(&PythonReports::change_traced, &measurement_.python()),
          .traced = [this] { return measurement_.python().traced(); },
          .look =
              [this](const LookOrder& order, double patience_s, MemoryLooks::Done done) {
                HeapLooks& heap = measurement_.heap();
                heap.look();
                // Who cannot be asked is seen by the samples of the host memory.
                return measurement_.python().looks().ask_all(
                    order, patience_s, [&heap, done = std::move(done)](LookAnswer answer) {
                      const model::RankSet sampled = heap.ranks();
                      const model::RankSet left = answer.unreachable.minus(sampled);
                      answer.answered.insert(answer.unreachable.minus(left));
                      answer.unreachable = left;
                      done(answer);
                    });
              },
          .step_s = [this] { return measurement_.steps().step_s(); },
          .nodes = [&nodes] { return nodes.list(); },
          .ask = std::bind_front(&NodeHandler::ask, &nodes)};
}

}  // namespace xpurun::launcher
