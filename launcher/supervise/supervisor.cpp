#include "launcher/supervise/supervisor.h"

#include "common/base/output/log.h"
#include "common/base/strings.h"
#include "launcher/ending/job_result.h"
#include "launcher/journal/run_description.h"
#include "launcher/output/status_text.h"
#include "launcher/spawn/command_spawner.h"
#include "launcher/spawn/environment.h"
#include "launcher/supervise/command_start.h"
#include "launcher/supervise/live_view.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {
// A rank's failure needs no dump of its own within this time after another dump.
constexpr double kDumpedRecentlyS = 3;
// Evidence of a death is read from the driver and the kernel alone, and people wait for the exit status.
constexpr double kEvidenceOfADeathS = 3;
}  // namespace

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
      host_(host_name()),
      complaints_(loop),
      journal_(loop, storage, model::RunDir(dir_.path), loop.now()),
      table_(::getpid(), journal_.started()),
      reports_({loop, storage, complaints_}, dir_.path, inbox_.original_mask()),
      notices_(loop, [this](const wire::Notice& n, base::Pid pid, base::Tid tid) { notice(n, pid, tid); }),
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
      evidence_({.loop = loop,
                 .signal_mask = inbox_.original_mask(),
                 .stderr_fd = complaints_.fd(),
                 .started = [this](base::Pid pid) { table_.ignore(pid); }}),
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
      crashes_({table_, journal_, reaper_.ledger(), dumps_, ending_.state()},
               {.discover = [this] { watcher_.discover(); },
                .was_interrupted = [this] { return signals_.was_interrupted(); },
                .release = [this](base::Pid pid) { notices_.release(pid); }}),
      signals_({loop, table_, reaper_.ledger(), ending_.state(), options}, signal_hooks()),
      metrics_(loop, [this] { return timing_.node_metrics(TimingService::WhichRanks::living); }),
      control_({loop, storage, timing_, options}, dir_.path, host_, control_hooks()),
      listeners_({journal_, options, notices_, control_, metrics_},
                 [this](const std::string& line) { say(line); }),
      status_line_(loop, STDERR_FILENO, [this](size_t columns) { return status_line(columns); }) {
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
  if (journal_.manifest().preload_path.empty()) {
    say("no logs of single ranks: they need the preload library");
    return;
  }
  relay_.emplace(loop_);
  const LinePrefix prefix = options_.prefix ? LinePrefix::rank : LinePrefix::none;
  if (const auto added = add_log_relay(env, *relay_, dir_.absolute, prefix); !added) {
    relay_.reset();
    say(fmt::format("no logs of single ranks: {}", base::to_line(added.error())));
    return;
  }
  table_.ignore(relay_->pid());
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
    say(fmt::format("watching {} process{} of pid {}; Ctrl-C leaves the job as it is", processes,
                    processes == 1 ? "" : "es", fmt::join(options_.attach_to, ", ")));
    if (table_.foreign_job_ended()) {
      ending_.command_ended({});
    }
  }
  XPURUN_TRY(loop_.run());
  const int status = exit_status_of(journal_.manifest(), table_, ending_.state());
  nodes_.finish(status);
  return status;
}

void Supervisor::notice(const wire::Notice& n, base::Pid pid, base::Tid tid) {
  const bool known = table_.find(pid) != nullptr;
  const bool python = (n.flags & wire::kNoticePython) != 0;
  if (python) {
    table_.note_python(pid);
  }
  const bool has_ended = ending_.state().has_ended();
  const auto answer = [this, pid](int descriptor) { notices_.answer_attach(pid, descriptor); };
  if (n.kind == static_cast<uint16_t>(wire::NoticeKind::crash)) {
    crashes_.process_crashed(n, pid, tid);
  } else if (n.kind == static_cast<uint16_t>(wire::NoticeKind::attach)) {
    has_ended ? answer(-1) : timing_.attach(pid, answer);
  } else if (const auto writer = span_writer_of(n)) {
    has_ended ? answer(-1) : python_.attach(pid, *writer, answer);
  } else if (n.kind == static_cast<uint16_t>(wire::NoticeKind::capture_attach)) {
    activity_.attach(pid, answer);
  } else if (!known && !has_ended) {
    watcher_.discover();
    if (python) {
      table_.note_python(pid);
    }
  }
}

void Supervisor::process_died(const TrackedProcess& p, base::WaitStatus status, bool failed) {
  const base::Rank rank = p.record.rank;
  watcher_.process_ended(p.record.pid, status);
  dumps_.process_ended(p.record.pid);
  nodes_.process_died();
  if (failed) {
    notifier_.events().died(p, status);
  }
  if (!failed || p.record.role != model::ProcessRole::rank || ending_.state().ended_by_us) {
    return;
  }
  // The first failure of a rank: where were the others? Soon the launcher will end them. The table may forget
  // the process when the dump begins.
  if (p.record.pid != table_.main() && !dumps_.dumped_within(kDumpedRecentlyS)) {
    dumps_.request({.why = model::DumpReason::death, .trigger = rank, .reply = {}});
  }
  nodes_.rank_failed(rank);
}

void Supervisor::collect_evidence(const model::DumpManifest& dump, const std::string& directory) {
  const bool stall = dump.why == model::DumpReason::hang;
  const bool failure = dump.why == model::DumpReason::crash || dump.why == model::DumpReason::death;
  if ((!stall && !failure) || options_.evidence_timeout_s <= 0) {
    return;
  }
  EvidenceRequest request{.directory = directory,
                          .limit_s = options_.evidence_timeout_s,
                          .since_us = static_cast<uint64_t>(journal_.started() / 1000)};
  if (failure) {
    request.limit_s = std::min(request.limit_s, kEvidenceOfADeathS);
  }
  for (const TrackedProcess* p : table_.living()) {
    if (stall && p->record.role == model::ProcessRole::rank && p->record.rank >= 0) {
      request.ranks.push_back({.rank = p->record.rank, .pid = p->record.pid});
    }
  }
  evidence_.start(request, [this, stall] { evidence_collected(stall); });
}

void Supervisor::evidence_collected(bool of_a_stall) {
  // A verdict that came before is made again with the evidence; if the job is to be ended, it is ended then.
  nodes_.evidence_collected();
  // The evidence may be of a death during a stall.
  const bool stall = of_a_stall || std::as_const(journal_).open_incident() != nullptr;
  if (stall && !dumps_.busy()) {
    report_on_stall();
  }
  ending_.proceed();
}

void Supervisor::report_on_stall() {
  if (ending_.state().has_ended()) {
    return;
  }
  // Of a stall that all nodes judge together, the verdict comes from there.
  if (nodes_.leads()) {
    nodes_.judge_again();
  } else {
    reports_.request();
  }
}

void Supervisor::stall_raised(base::Rank longest) {
  if (ending_.state().is_ending()) {
    return;
  }
  auto& stalls = journal_.manifest().incidents;
  // Another node may have opened it.
  if (journal_.open_incident() == nullptr) {
    stalls.push_back({.n = static_cast<int>(stalls.size()) + 1, .at_s = journal_.elapsed_s()});
  }
  base::log_info("rank {} has been still for {}", longest, base::human_duration(options_.hang_timeout_s));
  journal_.changed();
  if (!nodes_.stall_raised()) {
    dumps_.request({.why = model::DumpReason::hang, .trigger = longest, .reply = {}});
  }
}

void Supervisor::stall_escalated() {
  const model::Incident* stall = journal_.open_incident();
  if (stall == nullptr || stall->dump.empty() || ending_.state().ended_by_us) {
    return;
  }
  if (!nodes_.stall_escalated() && dumps_.escalate(stall->dump)) {
    reports_.request();
  }
}

void Supervisor::stall_cleared() {
  if (verdicts_.stall_cleared() && options_.report && !ending_.state().has_ended()) {
    reports_.request();
  }
}

void Supervisor::reports_done() {
  if (!reports_.busy() && !nodes_.busy()) {
    ending_.report_done();
  }
}

// The calls of both sources, NCCL's ledger and torch.distributed.
model::CollectiveFacts Supervisor::calls() {
  model::CollectiveFacts calls = timing_.calls();
  python_.add_calls(calls);
  std::erase_if(calls.ranks, [this](const auto& rank) { return table_.replaced(rank.pid); });
  return calls;
}

model::CollectiveFacts Supervisor::save_calls(const std::string& path) {
  model::CollectiveFacts calls = this->calls();
  if (!calls.empty()) {
    storage_.replace(path, to_json(calls).dump(1));
  }
  return calls;
}

void Supervisor::drain_logs(std::function<void()> done) {
  notices_.release_all();
  relay_ ? relay_->finish(std::move(done)) : done();
}

void Supervisor::record_end() {
  notices_.release_all();
  reaper_.find_unnoticed_deaths();
  if (restart_.pending() && !ending_.state().command_status.succeeded()) {
    journal_.manifest().outcome = model::RunOutcome::hang;  // the launcher ended instead of starting anew
  }
  complete_manifest(journal_.manifest(), table_, ending_.state(), signals_.was_interrupted());
  timing_.finish();
  gpu_watch_.finish();
  python_.save_spans();
  if (!journal_.manifest().dumps.empty()) {
    save_calls(journal_.dir().file(model::kCollectivesFile));
  }
  journal_.save_now();
  nodes_.job_recorded();
}

LiveStatus Supervisor::live_status() {
  return launcher::live_status(
      {loop_, journal_, table_, watcher_, timing_, speed_.watch(), [this] { return calls(); }});
}

std::string Supervisor::status_line(size_t columns) {
  const bool wanted = options_.status == ShowStatus::always || table_.multi_process();
  return wanted ? status_line_text(live_status(), columns, options_.language) : std::string();
}

}  // namespace xpurun::launcher
