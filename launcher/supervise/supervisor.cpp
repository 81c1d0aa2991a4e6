#include "launcher/supervise/supervisor.h"

#include "common/base/os/host.h"
#include "common/base/output/log.h"
#include "launcher/ending/job_result.h"
#include "launcher/journal/run_description.h"
#include "launcher/supervise/reporting/live_view.h"

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
      messages_(setup.messages),
      host_(base::host_name()),
      complaints_(loop),
      journal_(loop, storage, model::RunDir(dir_.path), loop.now()),
      table_(::getpid(), journal_.started()),
      logs_(loop),
      notices_(loop, std::bind_front(&NoticeRouter::received, &router_)),
      reaper_({loop, table_, journal_}, reaper_hooks()),
      ending_({loop, storage, table_}, dir_.path, ending_hooks()),
      watcher_({loop, table_, options, journal_.started(), host_}, watch_listener(),
               [this] { return dumps_.busy(); }),
      notifier_({loop, table_, reaper_.ledger(), journal_, options, messages_},
                {.loop = loop,
                 .signal_mask = inbox_.original_mask(),
                 .started = [this](base::Pid pid) { table_.ignore(pid); }},
                dir_.absolute),
      dumps_({loop, storage, journal_, table_, options}, {host_, inbox_.original_mask(), complaints_.fd()},
             dump_hooks()),
      looks_({.loop = loop,
              .signal_mask = inbox_.original_mask(),
              .stderr_fd = complaints_.fd(),
              .started = [this](base::Pid pid) { table_.ignore(pid); },
              .looked = std::bind_front(&Watcher::looked, &watcher_)}),
      measurement_({loop, storage, journal_, table_, options, watcher_, dumps_, notifier_, ending_.state()},
                   {host_, dir_.absolute, inbox_.original_mask(), complaints_.fd()}, measurement_hooks()),
      judgement_({loop, storage, complaints_, journal_, table_, options, messages_, watcher_, dumps_,
                  notifier_, reaper_.ledger(), ending_.state()},
                 {host_, dir_, inbox_.original_mask()}, judgement_hooks()),
      crashes_({table_, journal_, reaper_.ledger(), dumps_, ending_.state()}, crash_hooks()),
      deaths_({table_, dumps_, ending_.state()}, death_hooks()),
      signals_({loop, table_, reaper_.ledger(), ending_.state(), options, journal_.dir(), journal_.started()},
               signal_hooks()),
      router_({table_, ending_.state()}, notice_hooks()),
      end_record_({journal_, table_, ending_.state(), measurement_.calls()}, end_record_hooks()),
      control_({loop, storage, measurement_.timing(), options}, dir_.path, host_, control_hooks()),
      listeners_({journal_, options, notices_, control_, measurement_.metrics()}, say()),
      start_({journal_, table_, logs_, options, setup.inherited, setup.spares},
             {dir_.absolute, inbox_.original_mask()},
             {.foreign_job_ended = [this] { ending_.command_ended({}); },
              .judge_now = [this] { judge_now(); },
              .say = say()}),
      display_({loop, table_, options}, setup.footer, [this] { return live_status(); }) {
  notices_.on_text(std::bind_front(&PythonReports::received, &measurement_.python()));
  table_.on_found([this](const TrackedProcess& p) { reaper_.watch(p); });
  table_.on_lost([this](base::Pid pid) { reaper_.process_died(pid, std::nullopt); });
  if (storage_.pid() > 0) {
    table_.ignore(storage_.pid());
  }
  helpers_.add_busy(dumps_);
  helpers_.add_known(looks_);
  helpers_.add_busy(notifier_);
  measurement_.add_helpers(helpers_);
  judgement_.add_helpers(helpers_);
  helpers_.add_known(logs_);
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
  const auto started = start_.start(listeners_.notice_path());
  journal_.save_now();
  XPURUN_TRY(started);
  watcher_.start();
  display_.start();
  start_.watching();
  XPURUN_TRY(loop_.run());
  const int status = exit_status_of(journal_.manifest(), table_, ending_.state());
  judgement_.nodes().finish(status);
  return status;
}

void Supervisor::judge_now() {
  constexpr double kLookS = 1.5;
  constexpr double kMostS = 4;
  loop_.after(kLookS, [this] { judge_after_looks(kMostS - kLookS); });
}

// Native ranks that compute, or poll for others, need some looks at their stacks.
void Supervisor::judge_after_looks(double left_s) {
  constexpr double kStillS = 1;
  constexpr double kAgainS = 0.1;
  if (left_s > 0 && watcher_.wants_more_looks(kStillS)) {
    loop_.after(kAgainS, [this, left_s] { judge_after_looks(left_s - kAgainS); });
    return;
  }
  watcher_.look_for_stall(kStillS, Watcher::Look::now);
  if (!dumps_.busy()) {
    dumps_.request({.why = model::DumpReason::request, .reply = {}});
  }
  // The end waits for the dump and its report.
  ending_.detach();
}

LiveStatus Supervisor::live_status() {
  return launcher::live_status({loop_, journal_, table_, watcher_, measurement_.timing(),
                                measurement_.steps(), [this] { return measurement_.calls().all(); },
                                measurement_.slow_ranks()});
}

std::function<void(const std::string&)> Supervisor::say() {
  return [this](const std::string& line) { messages_.say(line); };
}

}  // namespace xpurun::launcher
