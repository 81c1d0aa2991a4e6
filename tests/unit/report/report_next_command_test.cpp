#include "report/run/findings.h"
#include "report/run/next_command.h"

#include <doctest/doctest.h>

#include <csignal>

using namespace xpurun;
using namespace xpurun::report;

namespace {

RunReport hung(std::string_view id) {
  RunReport r{.dir = "xpurun-runs/r 1"};
  r.run.command = {"torchrun", "train me.py"};
  r.run.outcome = model::RunOutcome::hang;
  r.verdict = {.id = std::string(id),
               .kind = model::VerdictKind::hang,
               .ranks = {2},
               .host = "a",
               .pid = 102,
               .dump = "dumps/1-hang"};
  return r;
}

RunReport living(std::string_view id) {
  RunReport r = hung(id);
  r.run.outcome = model::RunOutcome::running;
  return r;
}

}  // namespace

TEST_CASE("after a hang: dump the living process, later show its record") {
  CHECK(verdict_command(living("hang.stuck")) == "xpurun stacks --pid 102 --locals");
  CHECK(verdict_command(hung("hang.stuck")) ==
        "xpurun stacks --format text 'xpurun-runs/r 1/dumps/1-hang/rank-2.stacks.json'");
  CHECK(verdict_command(living("hang.busy")) == "xpurun stacks --pid 102 --samples 3");
  CHECK(verdict_command(living("hang.mismatch")) == "xpurun stacks --run 'xpurun-runs/r 1'");
  CHECK(verdict_command(hung("hang.mismatch")) ==
        "xpurun stacks --format tree 'xpurun-runs/r 1/dumps/1-hang'");
  for (const char* id : {"hang.mismatch_size", "hang.order", "hang.p2p", "hang.network", "crash.mismatch"}) {
    CAPTURE(id);
    CHECK(verdict_command(hung(id)) == verdict_command(hung("hang.mismatch")));
  }
  CHECK(verdict_command(living("hang.not_entered")) == verdict_command(living("hang.stuck")));
  CHECK(verdict_command(hung("hang.kernel")) == verdict_command(hung("hang.stuck")));
  CHECK(verdict_command(hung("hang.unknown")) == "tail 'xpurun-runs/r 1/xpurun.log'");
  CHECK(verdict_command(living("running.unfinished")) == "xpurun stacks --run 'xpurun-runs/r 1'");
  CHECK(verdict_command(hung("none.finished")).empty());
}

TEST_CASE("a rank that waits for a server that does not answer: the server, and a time limit") {
  const auto next = [](const std::string& callee, const std::string& target) {
    const RunReport r = hung("hang.stuck");
    model::Verdict v = r.verdict;
    v.where = {.function = "score", .file = "rl_loop.py", .line = 7, .callee = callee, .target = target};
    complete_next_step(r, "", v);
    return v.next.text;
  };
  CHECK(next("Session.post", "127.0.0.1:28765") ==
        "find out why 127.0.0.1:28765 does not answer, and give the call a time limit");
  CHECK(next("socket.accept", "127.0.0.1:28765") == "see all its threads");
  CHECK(next("open", "/data/a:1") == "see all its threads");
  CHECK(next("time.sleep", "") == "see all its threads");
}

TEST_CASE("a command that runs the job again keeps the options that were typed") {
  RunReport r = hung("exit.error");
  r.run.options = {
      {.name = "hang-timeout", .value = "5", .source = "command line", .typed = "--hang-timeout=5"},
      {.name = "out", .value = "x", .source = "command line", .typed = "--out=x"},
      {.name = "grace", .value = "5s", .source = "XPURUN_GRACE"},
      {.name = "name", .value = "a b", .source = "command line", .typed = "--name=a b"}};
  CHECK(verdict_command(r) == "xpurun --logs --hang-timeout=5 '--name=a b' -- torchrun 'train me.py'");
  r.run.options.push_back(
      {.name = "nats-token", .value = "****", .source = "command line", .typed = "--nats-token=****"});
  CHECK(verdict_command(r).empty());
}

TEST_CASE("a command in the next step is not repeated") {
  RunReport r = living("hang.stopped");
  r.verdict.next = {.command = "kill -CONT 102"};
  CHECK(find_findings(r)[0].command == "kill -CONT 102");
  CHECK(find_findings(r)[0].next.empty());
  r.run.outcome = model::RunOutcome::hang;
  CHECK(verdict_command(r).empty());
  r.verdict.id = "crash.killed";
  r.verdict.signal = SIGKILL;
  r.verdict.next = {.text = "if so, the kernel ran out of memory",
                    .command = "journalctl -k | grep -i 'killed process'"};
  CHECK(find_findings(r)[0].command == "journalctl -k | grep -i 'killed process'");
  CHECK(find_findings(r)[0].next == "if so, the kernel ran out of memory");
  r.verdict.next = {.text = "find out who sent the signal"};
  CHECK(verdict_command(r).empty());
  CHECK(find_findings(r)[0].next == "find out who sent the signal");
}

TEST_CASE("show the end of a log, else the option that keeps logs; never with a masked word") {
  RunReport r = hung("exit.error");
  CHECK(verdict_command(r) == "xpurun --logs -- torchrun 'train me.py'");
  r.culprit_log = "xpurun-runs/r 1/ranks/2/stderr.log";
  CHECK(verdict_command(r) == "tail -n 50 'xpurun-runs/r 1/ranks/2/stderr.log'");
  r.culprit_log.clear();
  r.run.command.emplace_back("--api-key=****");
  CHECK(verdict_command(r).empty());
  CHECK(doctor_command(r) == "xpurun doctor");
}

TEST_CASE("paths are relative to the directory where the run was started") {
  CHECK(typed_path("/home/u/xpurun-runs/r", "/home/u") == "xpurun-runs/r");
  CHECK(typed_path("/data/r", "/home/u") == "/data/r");
  CHECK(typed_path("/home/user/r", "/home/u") == "/home/user/r");
  CHECK(typed_path("out", "/home/u") == "out");
  CHECK(typed_path("/r", "") == "/r");
}
