#include "launcher/ending/job_result.h"
#include "launcher/ending/reaper.h"
#include "tests/unit/launcher/job_scene.h"

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

using namespace xpurun;
using namespace xpurun::launcher;
using test::Told;

namespace {

base::Pid child_that_exits(int status) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::_exit(status);
  }
  REQUIRE(pid > 0);
  return pid;
}

void await_zombie(base::Pid pid) {
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) == 0);
}

}  // namespace

TEST_CASE("the command, helpers and unknown children are distinguished") {
  test::JobScene s;
  const base::Pid command = child_that_exits(3);
  const base::Pid helper = child_that_exits(0);
  const base::Pid stranger = child_that_exits(0);
  for (const base::Pid pid : {command, helper, stranger}) {
    await_zombie(pid);
  }
  s.table.set_main(command);
  Reaper reaper(
      {s.loop, s.table, s.journal},
      {.may_be_helper = [&](base::Pid pid) { return pid == helper; },
       .helper_ended =
           [&](base::Pid pid, base::WaitStatus) {
             if (pid == helper) {
               s.tell("helper");
             }
             return pid == helper;
           },
       .unknown_ended = s.teller("unknown"),
       .died = [&](const TrackedProcess&, base::WaitStatus, bool) { s.tell("died"); },
       .command_ended =
           [&](base::WaitStatus status) { s.tell(fmt::format("command {}", status.exit_code())); }});
  reaper.reap();
  auto told = s.told();
  std::sort(told.begin(), told.end());
  CHECK(told == Told{"command 3", "helper", "unknown"});
  reaper.reap();
  CHECK(s.told().empty());
}

TEST_CASE("the death of a process of the job is recorded once, with its status") {
  test::JobScene s;
  EventLoop loop = std::move(*EventLoop::create());
  Journal journal(loop, s.storage, model::RunDir("run"), loop.now());
  int pipe_ends[2];
  REQUIRE(::pipe(pipe_ends) == 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    // Ends when the test closes its end.
    ::close(pipe_ends[1]);
    char byte = 0;
    (void)!::read(pipe_ends[0], &byte, 1);
    ::_exit(7);
  }
  ProcessTable table(::getpid(), loop.now());
  table.set_main(pid);
  Told told;
  Reaper reaper(
      {loop, table, journal},
      {.may_be_helper = [](base::Pid) { return false; },
       .helper_ended = [](base::Pid, base::WaitStatus) { return false; },
       .unknown_ended = [&] { table.refresh(); },
       .died =
           [&](const TrackedProcess& p, base::WaitStatus status, bool failed) {
             told.push_back(fmt::format("{} {} {}", p.record.pid == pid, status.exit_code(), failed));
           },
       .command_ended = [&](base::WaitStatus) { loop.stop(); }});
  table.on_found([&](const TrackedProcess& p) { reaper.watch(p); });
  table.refresh();
  REQUIRE(table.find(pid) != nullptr);
  ::close(pipe_ends[1]);
  REQUIRE(loop.run());  // the pidfd reports it
  ::close(pipe_ends[0]);
  CHECK(told == Told{"true 7 true"});
  CHECK(table.find(pid)->record.death.order == 1);
  CHECK(reaper.ledger().failure_seen());
  reaper.find_unnoticed_deaths();
  CHECK(told.size() == 1);
}

TEST_CASE("the root cause's signal is the signal of the rank that failed first") {
  const auto rank = [](base::Pid pid, double at_s, int raw, bool follower = false) {
    model::ProcessRecord r;
    r.pid = pid;
    r.role = model::ProcessRole::rank;
    r.death = {.happened = true, .at_s = at_s, .wait_status = base::WaitStatus(raw), .follower = follower};
    return r;
  };
  CHECK(root_cause_signal({}, {}) == 0);
  CHECK(root_cause_signal({rank(1, 5, 11), rank(2, 3, 6), rank(3, 1, 15, true), rank(4, 2, 0)}, {}) == 6);
  CHECK(root_cause_signal({rank(1, 5, 11), rank(2, 3, 1 << 8)}, {}) == 0);
  // Rank 1 crashed first, and was held for its dump.
  CHECK(root_cause_signal({rank(1, 5, 11), rank(2, 3, 6)}, {{.pid = 1, .at_s = 2}}) == 11);
}
