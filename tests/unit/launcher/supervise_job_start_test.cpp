#include "launcher/supervise/job_start.h"
#include "tests/unit/launcher/job_scene.h"

#include <doctest/doctest.h>

#include <signal.h>
#include <sys/wait.h>

using namespace xpurun;
using namespace xpurun::launcher;
using test::kCommand;
using test::kRank0;
using test::kRank1;
using test::Told;

namespace {

sigset_t no_signals() {
  sigset_t mask;
  sigemptyset(&mask);
  return mask;
}

struct JobStartScene : test::JobScene {
  InheritedState inherited;
  SpareDescriptors spares{2};
  JobLogs logs{loop};
  JobStart start{
      {journal, table, logs, options, inherited, spares},
      {"/nowhere", no_signals()},
      {.foreign_job_ended = teller("ended"), .say = [this](const std::string& line) { tell(line); }}};

  JobStartScene() { options.preload = false; }
};

}  // namespace

TEST_CASE("start: the command becomes the main process") {
  JobStartScene s;
  s.options.command = {"true"};
  s.options.logs = true;
  REQUIRE(s.start.start("/nowhere/notice.sock"));
  CHECK(s.told() == Told{"no logs of single ranks: they need the preload library"});
  const base::Pid pid = s.journal.manifest().main_pid;
  CHECK(s.table.main() == pid);
  CHECK(s.spares.held() == 0);
  CHECK(s.journal.manifest().preload_reason == "switched off by --no-preload");
  int status = -1;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  CHECK(base::WaitStatus(status).exit_code() == 0);
  s.start.watching();
  CHECK(s.told().empty());
}

TEST_CASE("start: a command that cannot start is recorded, without a verdict") {
  JobStartScene s;
  s.options.command = {"./there-is-no-such-program"};
  CHECK_FALSE(s.start.start(""));
  CHECK(s.journal.manifest().outcome == model::RunOutcome::spawn_failed);
  CHECK(s.journal.manifest().verdict.kind == model::VerdictKind::none);
  CHECK(s.table.main() == kCommand);  // unchanged
}

TEST_CASE("start: a job that runs already is watched, unless it has ended meanwhile") {
  JobStartScene s;
  s.options.attach_to = {kCommand};
  REQUIRE(s.start.start(""));
  CHECK(s.table.is_foreign());
  CHECK(s.table.main() == kCommand);
  CHECK(s.journal.manifest().main_pid == kCommand);
  CHECK(s.spares.held() == 2);
  s.start.watching();
  CHECK(s.told() == Told{"watching 3 processes of pid 5000010; Ctrl-C leaves the job as it is"});
  for (const base::Pid pid : {kCommand, kRank0, kRank1}) {
    s.fake.end(pid);
    s.table.mark_dead(pid);
  }
  s.start.watching();
  CHECK(s.told() == Told{"watching 0 processes of pid 5000010; Ctrl-C leaves the job as it is", "ended"});
}
