// Start and set-up. The other parts of Supervisor: deaths.cpp, watching.cpp, dumping.cpp, verdicts.cpp,
// control.cpp.
#include "launcher/supervise/supervisor.h"

#include "common/base/os/io.h"
#include "common/base/output/log.h"
#include "common/base/strings.h"
#include "common/model/secrets/kept_environment.h"
#include "common/model/secrets/redact.h"
#include "common/wire/logs.h"
#include "launcher/spawn/command_spawner.h"
#include "launcher/spawn/environment.h"
#include "launcher/spawn/install_paths.h"
#include "launcher/spawn/preload_plan.h"

#include <fmt/format.h>

#include <climits>
#include <cmath>
#include <cstdlib>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

std::string host_name() {
  char buf[256] = {};
  if (::gethostname(buf, sizeof buf - 1) != 0) {
    return "localhost";
  }
  return buf;
}

std::string absolute(const std::string& path) {
  char resolved[PATH_MAX];
  if (::realpath(path.c_str(), resolved) != nullptr) {
    return resolved;
  }
  char cwd[PATH_MAX];
  const bool relative = !path.starts_with('/') && ::getcwd(cwd, sizeof cwd) != nullptr;
  return relative ? fmt::format("{}/{}", cwd, path) : path;
}

// The most that the preload accepts.
constexpr double kLongestCrashWaitS = 3600;

// Longer than torch's loader of data waits for each of its workers to end, and less than a stall.
double patience_with_waits(const RunOptions& options) {
  constexpr double kPatienceS = 6;
  return options.hang_timeout_s > 0 ? std::min(kPatienceS, options.hang_timeout_s / 2) : kPatienceS;
}

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
      complaints_(loop),
      journal_(loop, storage, model::RunDir(dir_.path), base::mono_ns()),
      table_(::getpid(), journal_.started()),
      child_waits_(patience_with_waits(options)),
      detector_(options.hang_timeout_s, options.busy_timeouts),
      unwatched_(options),
      notices_(loop, [this](const wire::Notice& n, base::Pid pid, base::Tid tid) { notice(n, pid, tid); }),
      control_(loop, [this](const nlohmann::json& request,
                            ControlServer::Reply reply) { control(request, std::move(reply)); }),
      shutdown_(loop, table_),
      reports_({loop, storage, complaints_}, journal_.dir().path(), inbox_.original_mask()),
      last_watch_(loop, storage, journal_.dir().path()),
      collector_(static_cast<wire::Level>(options.timing), budget_ppm()),
      event_files_(storage, journal_.dir().file("ranks"), options.event_bytes),
      http_(loop, [this](const HttpRequest& request,
                         const HttpServer::Reply& reply) { reply(answer_http(request)); }),
      control_http_(loop, [this](const HttpRequest& request,
                                 const HttpServer::Reply& reply) { answer_control_http(request, reply); }),
      host_(host_name()),
      level_(static_cast<wire::Level>(options.timing)) {
  reports_.set_handlers([this](base::Pid pid) { table_.ignore(pid); },
                        [this](const ReportResult& result) { take_verdict(result); },
                        [this] { reports_done(); });
  collector_.on_events([this](base::Pid pid, const RankTiming& timing, std::span<const wire::Event> events,
                              const wire::Segment& memory) { events_arrived(pid, timing, events, memory); });
  collector_.use_peaks(options_.peaks);
  if (options_.shape_metrics) {
    collector_.keep_shapes();
  }
  if (storage_.pid() > 0) {
    table_.ignore(storage_.pid());
  }
  table_.on_found([this](const TrackedProcess& p) { watch_process(p); });
}

void Supervisor::describe_run() {
  model::RunManifest& m = journal_.manifest();
  m.version = XPURUN_VERSION;
  m.id = journal_.dir().id();
  m.host = host_;
  m.started_wall_ns = base::wall_ns();
  m.command = model::redact_argv(options_.command);
  char cwd[4096];
  m.cwd = ::getcwd(cwd, sizeof cwd) != nullptr ? cwd : "";
  std::map<std::string, std::string> env;
  for (const std::string& entry : current_environment()) {
    const size_t eq = entry.find('=');
    env.emplace(entry.substr(0, eq), eq == std::string::npos ? "" : entry.substr(eq + 1));
  }
  model::KeptEnvironment kept = model::keep_environment(env);
  m.env = std::move(kept.values);
  m.env_names = std::move(kept.names);
  m.supervisor_pid = ::getpid();
  m.hang_timeout_s = options_.hang_timeout_s;
  m.options = options_.origins;
  m.verdict.kind = model::VerdictKind::running;
}

base::Status Supervisor::open_sockets() {
  // Absolute paths: the ranks may have changed their directory by the time they crash.
  XPURUN_TRY_ASSIGN(SocketPlace place, SocketPlace::choose(dir_));
  sockets_.emplace(std::move(place));
  notice_path_ = sockets_->path(SocketPlace::kNotice);
  XPURUN_TRY(notices_.listen(notice_path_));
  const std::string control_path = sockets_->path(SocketPlace::kControl);
  XPURUN_TRY(control_.listen(control_path));
  journal_.manifest().control = control_path;
  return {};
}

// Ranks are told apart by the preload in each of them.
void Supervisor::arrange_logs(std::vector<std::string>& env) {
  if (journal_.manifest().preload_path.empty()) {
    say("no logs of single ranks: they need the preload library");
    return;
  }
  const std::string ranks = dir_.absolute + "/ranks";
  relay_.emplace(loop_);
  const auto variable = relay_->start(ranks, options_.prefix ? LinePrefix::rank : LinePrefix::none);
  if (!variable) {
    relay_.reset();
    say(fmt::format("no logs of single ranks: {}", base::to_line(variable.error())));
    return;
  }
  table_.ignore(relay_->pid());
  env = with_variable(std::move(env), wire::kLogsEnv, *variable);
}

base::Status Supervisor::start_command() {
  model::RunManifest& m = journal_.manifest();
  Command command{.argv = options_.command,
                  .env = current_environment(),
                  .signal_mask = inbox_.original_mask(),
                  .inherited = inherited_};
  if (!options_.preload) {
    m.preload_reason = "switched off by --no-preload";
  } else {
    auto library = options_.preload_path.empty() ? preload_library() : options_.preload_path;
    if (!library) {
      m.preload_reason = base::to_line(library.error());
      base::log_warn("{}: crashes will be seen without their stacks", m.preload_reason);
    } else {
      const auto program = resolve_program(options_.command.at(0));
      const PreloadPlan plan = plan_preload(absolute(*library), program.value_or(""), command.env);
      m.preload_reason = plan.reason;
      if (plan.is_told) {
        base::log_warn("{}", plan.reason);
      }
      if (!plan.path.empty()) {
        m.preload_path = *library;
        const double wait_s = std::min(options_.crash_wait_s, kLongestCrashWaitS);
        const std::string run =
            fmt::format("1:{}:{}:{}", ::getpid(), std::lround(wait_s * 1000), notice_path_);
        command.env = with_variable(with_preload(std::move(command.env), plan.path), wire::kRunEnv, run);
        command.env = with_nccl_profiler(std::move(command.env), absolute(*library), options_.nccl_profiler,
                                         options_.timing == Timing::off ? Timed::no : Timed::yes);
      }
    }
  }
  if (options_.logs || options_.prefix) {
    arrange_logs(command.env);
  }
  spares_.release();
  XPURUN_TRY_ASSIGN(const base::Pid pid, spawn_command(command));
  m.main_pid = pid;
  table_.set_main(pid);
  return {};
}

base::Result<int> Supervisor::run() {
  auto status = run_command();
  if (sockets_) {
    sockets_->remove(storage_);
  }
  return status;
}

base::Result<int> Supervisor::run_command() {
  describe_run();
  // Descendants whose parents die become ours: they stay visible, and ptrace stays allowed (Yama scope 1).
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    base::log_warn("cannot become a subreaper; orphaned processes of the job may escape");
  }
  if (auto opened = open_sockets(); !opened) {
    base::log_warn("no sockets: {}", base::to_line(opened.error()));
  }
  XPURUN_TRY(loop_.add(inbox_.fd(), EPOLLIN,
                       [this](uint32_t) { inbox_.drain([this](const auto& s) { signal_received(s); }); }));
  if (options_.metrics_port > 0) {
    start_metrics();
  }
  start_control_http();
  if (auto started = start_command(); !started) {
    journal_.manifest().outcome = model::RunOutcome::spawn_failed;
    journal_.manifest().verdict.kind = model::VerdictKind::none;
    journal_.save_now();
    return base::fail(std::move(started.error()));
  }
  journal_.save_now();
  discovery_interval_s_ = 0.02;
  discover();
  last_tick_ = base::mono_ns();
  schedule_tick();
  schedule_status_line();
  XPURUN_TRY(loop_.run());
  return exit_status();
}

}  // namespace xpurun::launcher
