#include "launcher/supervise/supervisor.h"

#include "common/base/os/host.h"
#include "common/base/output/log.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "launcher/ending/job_result.h"
#include "launcher/journal/run_description.h"
#include "launcher/output/status_text.h"
#include "launcher/spawn/command_spawner.h"
#include "launcher/spawn/environment.h"
#include "launcher/supervise/command_start.h"
#include "launcher/supervise/reporting/live_view.h"

#include <fmt/format.h>

#include <cstdlib>
#include <functional>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace xpurun::launcher {

Supervisor::Supervisor(EventLoop& loop, const RunOptions& options, Storage& storage, DirFacts dir,
                       ProcessSetup setup)
    : loop_(loop),
      options_(options),
      storage_(storage),
      dir_(std::move(dir)),
      inbox_(std::move(setup.inbox)),
      inherited_(setup.inherited),
      spares_(setup.spares),
      messages_(setup.messages),
      host_(base::host_name()),
      complaints_(loop),
      journal_(loop, storage, model::RunDir(dir_.path), loop.now()),
      table_(::getpid(), journal_.started()),
      reports_({loop, storage, complaints_}, dir_.path, inbox_.original_mask()),
      logs_(loop),
      notices_(loop, std::bind_front(&NoticeRouter::received, &router_)),
      python_({loop, table_, journal_, storage, options}, host_,
              {.discover = [this] { watcher_.discover(); },
               .recorded = [this](const model::PythonException& e) { notifier_.events().raised(e); },
               .ended = [this](base::Pid pid, base::WaitStatus status) { reaper_.process_died(pid, status); },
               .spans_wanted = [this] { return timing_.level() != wire::Level::off; }}),
      speed_(
          loop, journal_, options,
          {.slower = [this](const std::string& sentence) { notifier_.events().slower(sentence); },
           .say = [this](const std::string& line) { say(line); },
           .recorded = [this] { return timing_.level() != wire::Level::off && !ending_.state().is_ending(); },
           .capture = std::bind_front(&CaptureRunner::capture_by_itself, &captures_)}),
      reaper_({loop, table_, journal_}, reaper_hooks()),
      ending_({loop, storage, table_}, dir_.path, ending_hooks()),
      watcher_({loop, table_, options, journal_.started(), host_}, watch_listener(),
               [this] { return dumps_.busy(); }),
      evidence_({journal_, table_, options},
                {.loop = loop,
                 .signal_mask = inbox_.original_mask(),
                 .stderr_fd = complaints_.fd(),
                 .started = [this](base::Pid pid) { table_.ignore(pid); }},
                [this](bool of_a_stall) {
                  // A verdict that came before is made again with the evidence; if the job is to be ended, it
                  // is ended then.
                  nodes_.evidence_collected();
                  stalls_.evidence_collected(of_a_stall);
                  ending_.proceed();
                }),
      notifier_({loop, table_, reaper_.ledger(), journal_, options, messages_},
                {.loop = loop,
                 .signal_mask = inbox_.original_mask(),
                 .started = [this](base::Pid pid) { table_.ignore(pid); }},
                dir_.absolute),
      restart_({loop, table_, reaper_.ledger()}),
      dumps_({loop, storage, journal_, table_, options}, {host_, inbox_.original_mask(), complaints_.fd()},
             dump_hooks()),
      timing_({loop, storage, table_, options}, journal_.dir(), host_, timing_hooks()),
      activity_({loop, storage, table_, timing_.collector()}, host_,
                {.step_s = [this](base::MonoNs from,
                                  base::MonoNs until) { return speed_.watch().median_step_s(from, until); }}),
      captures_({loop, storage, timing_.trace(), activity_}, dir_.absolute, inbox_.original_mask(),
                complaints_.fd(),
                {.save_run = [this] { journal_.save_now(); },
                 .uses_gpu = [this] { return speed_.watch().uses_gpu(); },
                 .started = [this](base::Pid pid) { table_.ignore(pid); }}),
      gpu_watch_({.loop = loop,
                  .storage = storage,
                  .file = journal_.dir().file(std::string(model::kGpuHealthFile)),
                  .signal_mask = inbox_.original_mask(),
                  .stderr_fd = complaints_.fd(),
                  .started = [this](base::Pid pid) { table_.ignore(pid); }}),
      nodes_({loop, storage, journal_, table_, watcher_, dumps_, ending_.state(), options},
             {host_, dir_.absolute, inbox_.original_mask(), complaints_.fd()}, node_hooks()),
      verdicts_({journal_, ending_.state(), options}, verdict_hooks()),
      calls_({table_, storage},
             {.nccl = [this] { return timing_.calls(); },
              .add_torch = [this](model::CollectiveFacts& calls) { python_.add_calls(calls); }}),
      stalls_({journal_, dumps_, ending_.state(), options}, stall_nodes(),
              {.request_report = [this] { reports_.request(); },
               .still_s = [this](base::Rank rank) { return watcher_.rank_still_s(rank); },
               .close = [this] { return verdicts_.stall_cleared(); }}),
      crashes_({table_, journal_, reaper_.ledger(), dumps_, ending_.state()},
               {.discover = [this] { watcher_.discover(); },
                .was_interrupted = [this] { return signals_.was_interrupted(); },
                .release = [this](base::Pid pid) { notices_.release(pid); }}),
      deaths_({table_, dumps_, ending_.state()},
              {.ended =
                   [this](base::Pid pid, base::WaitStatus status) {
                     watcher_.process_ended(pid, status);
                     nodes_.process_died();
                   },
               .failed = [this](const TrackedProcess& p,
                                base::WaitStatus status) { notifier_.events().died(p, status); },
               .rank_failed = [this](base::Rank rank) { nodes_.rank_failed(rank); }}),
      signals_({loop, table_, reaper_.ledger(), ending_.state(), options}, signal_hooks()),
      router_({table_, ending_.state()}, notice_hooks()),
      end_record_({journal_, table_, ending_.state(), calls_}, end_record_hooks()),
      metrics_(loop, [this] { return timing_.node_metrics(TimingService::WhichRanks::living); }),
      control_({loop, storage, timing_, options}, dir_.path, host_, control_hooks()),
      listeners_({journal_, options, notices_, control_, metrics_},
                 [this](const std::string& line) { say(line); }),
      status_line_(loop, STDERR_FILENO, setup.footer,
                   [this](size_t columns) { return status_line(columns); }) {
  notices_.on_text([this](base::Pid pid, std::string_view json) { python_.received(pid, json); });
  python_.on_spans([this](const auto& who, auto spans) {
    speed_.add(who.rank, who.process, spans);
    timing_.spans_arrived(who.rank, spans, who.names);
  });
  reports_.set_options({options.source, options.share_with_group, options.language});
  reports_.set_handlers([this](base::Pid pid) { table_.ignore(pid); },
                        [this](const ReportResult& result) {
                          if (const auto taken = nodes_.take(result)) {
                            verdicts_.take(*taken);
                          }
                        },
                        [this] { reports_done(); });
  reports_.on_verdict([this](const ReportResult& result) { nodes_.take_verdict(result); });
  if (storage_.pid() > 0) {
    table_.ignore(storage_.pid());
  }
  table_.on_found([this](const TrackedProcess& p) { reaper_.watch(p); });
}

void Supervisor::start_status_line() {
  // Inside another xpurun's job, the line is that one's.
  const bool nested = std::getenv(wire::kRunEnv) != nullptr;
  const bool wanted =
      options_.status == ShowStatus::always || (options_.status == ShowStatus::automatic && !nested);
  if (wanted && options_.verbosity >= 0) {
    status_line_.start();
  }
}

void Supervisor::arrange_logs(std::vector<std::string>& env) {
  const base::Speaking speaking(options_.language);
  if (journal_.manifest().preload_path.empty()) {
    say(base::tr("no logs of single ranks: they need the preload library"));
    return;
  }
  const LinePrefix prefix = options_.prefix ? LinePrefix::rank : LinePrefix::none;
  if (const auto started = logs_.start(env, dir_.absolute, prefix); !started) {
    say(base::tr("no logs of single ranks: {}", base::to_line(started.error())));
    return;
  }
  table_.ignore(logs_.pid());
}

base::Status Supervisor::start_command() {
  model::RunManifest& m = journal_.manifest();
  Command command{.argv = options_.command,
                  .env = with_preload_setup(current_environment(), options_, listeners_.notice_path(), m),
                  .signal_mask = inbox_.original_mask(),
                  .inherited = inherited_};
  if (options_.logs || options_.prefix) {
    arrange_logs(command.env);
  }
  if (options_.flight_recorder) {
    command.env = with_flight_recorder(std::move(command.env), dir_.absolute + "/flight_recorder");
  }
  spares_.release();
  XPURUN_TRY_ASSIGN(const base::Pid pid, spawn_command(command));
  m.main_pid = pid;
  table_.set_main(pid);
  return {};
}

void Supervisor::attach_to_job() {
  describe_foreign_job(journal_.manifest(), options_.attach_to.front());
  table_.set_roots(options_.attach_to);
  table_.set_main(options_.attach_to.front());
  table_.ignore(::getpid());  // the job may contain the shell that xpurun runs in
}

base::Result<int> Supervisor::run() {
  auto status = run_command();
  listeners_.remove(storage_);
  return status;
}

base::Result<int> Supervisor::run_command() {
  describe_run(journal_.manifest(), options_, host_);
  journal_.manifest().id = journal_.dir().id();
  // Descendants whose parents die become ours: they stay visible, and ptrace stays allowed (Yama scope 1).
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    base::log_warn("cannot become a subreaper; orphaned processes of the job may escape");
  }
  XPURUN_TRY(loop_.add(inbox_.fd(), EPOLLIN,
                       [this](uint32_t) { inbox_.drain([this](const auto& s) { signals_.received(s); }); }));
  listeners_.open(dir_);
  if (options_.attaches()) {
    attach_to_job();
  } else if (auto started = start_command(); !started) {
    journal_.manifest().outcome = model::RunOutcome::spawn_failed;
    journal_.manifest().verdict.kind = model::VerdictKind::none;
    journal_.save_now();
    return base::fail(std::move(started.error()));
  }
  journal_.save_now();
  watcher_.start();
  start_status_line();
  if (options_.attaches()) {
    const size_t processes = table_.living().size();
    const std::string pids = fmt::format("{}", fmt::join(options_.attach_to, ", "));
    const base::Speaking speaking(options_.language);
    say(processes == 1
            ? base::tr("watching one process of pid {}; Ctrl-C leaves the job as it is", pids)
            : base::tr("watching {} processes of pid {}; Ctrl-C leaves the job as it is", processes, pids));
    if (table_.foreign_job_ended()) {
      ending_.command_ended({});
    }
  }
  XPURUN_TRY(loop_.run());
  const int status = exit_status_of(journal_.manifest(), table_, ending_.state());
  nodes_.finish(status);
  return status;
}

void Supervisor::reports_done() {
  if (!reports_.busy() && !nodes_.busy()) {
    ending_.report_done();
  }
}

void Supervisor::drain_logs(std::function<void()> done) {
  notices_.release_all();
  logs_.finish(std::move(done));
}

LiveStatus Supervisor::live_status() {
  return launcher::live_status(
      {loop_, journal_, table_, watcher_, timing_, speed_.watch(), [this] { return calls_.all(); }});
}

std::string Supervisor::status_line(size_t columns) {
  const bool wanted = options_.status == ShowStatus::always || table_.multi_process();
  return wanted ? status_line_text(live_status(), columns, options_.language) : std::string();
}

}  // namespace xpurun::launcher
