#include "common/base/os/io.h"
#include "launcher/stacks/dump_job.h"

#include <doctest/doctest.h>

#include <set>
#include <sys/stat.h>
#include <sys/wait.h>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

// A shell script instead of xpurun-stackdump: $2 is the pid, $4 the output file.
std::string helper(const std::string& body) {
  REQUIRE(base::write_file_atomic("helper", "#!/bin/sh\n" + body));
  REQUIRE(::chmod("helper", 0700) == 0);
  return "./helper";
}

struct JobOutcome {
  StackDumpOutcome dump;
  double seconds = 0;
};

JobOutcome take(DumpPlan request) {
  auto loop = EventLoop::create();
  REQUIRE(loop);
  sigset_t chld;
  sigemptyset(&chld);
  request.directory = ".";
  request.host = "h";
  sigemptyset(&request.signal_mask);
  JobOutcome out;
  std::set<base::Pid> helpers;
  const base::MonoNs start = base::mono_ns();
  DumpJob job(
      *loop, std::move(request), [&](base::Pid pid) { helpers.insert(pid); },
      [&](const StackDumpOutcome& o) {
        out.dump = o;
        loop->after(0, [&] { loop->stop(); });
      });
  job.start();
  // Replaces the supervisor's reaper.
  std::function<void()> reap = [&] {
    int status = 0;
    for (base::Pid pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      CHECK(job.helper_ended(pid, base::WaitStatus(status)) == (helpers.count(pid) == 1));
    }
    loop->after(0.005, reap);
  };
  reap();
  REQUIRE(loop->run());
  out.seconds = base::ns_to_s(base::mono_ns() - start);
  return out;
}

}  // namespace

TEST_CASE("all helpers prepare before any is released") {
  const std::string program = helper(
      "echo $2 >> prepared; echo ready; cat > /dev/null; test $(wc -l < prepared) = 2 || exit 9\n"
      "echo stopped $2 77; echo '{}' > $4; echo done ok\n");
  const auto out = take({.program = program,
                         .targets = {{.pid = 100, .rank = 0, .role = model::ProcessRole::rank},
                                     {.pid = 103, .rank = 1, .role = model::ProcessRole::rank}}});
  REQUIRE(out.dump.processes.size() == 2);
  for (const auto& p : out.dump.processes) {
    CHECK(p.status == model::DumpStatus::ok);
    CHECK(p.pause_ns == 77);
  }
  CHECK(out.dump.processes[0].file == "rank-0.stacks.json");
  CHECK(out.dump.spread_ns == 3);
}

TEST_CASE("stacks that a debugger still extends are announced once, before the end") {
  int told = 0;
  DumpPlan plan{.program = helper("echo ready; cat; echo stopped 5 1; echo wrote\n"
                                  "while [ $2 = 2 ] && [ ! -e told ]; do sleep 0.02; done; echo done ok\n"),
                .targets = {{.pid = 1, .rank = 0, .role = model::ProcessRole::rank},
                            {.pid = 2, .rank = 1, .role = model::ProcessRole::rank}}};
  plan.stacks_written = [&](const StackDumpOutcome& outcome) {
    ++told;
    CHECK(outcome.processes.size() == 2);
    for (const model::DumpedProcess& process : outcome.processes) {
      CHECK(process.status == model::DumpStatus::ok);
      CHECK_FALSE(process.file.empty());
    }
    CHECK(base::write_file_atomic("told", ""));
  };
  CHECK(take(plan).dump.processes.size() == 2);
  CHECK(told == 1);
}

TEST_CASE("workers are dumped after the ranks were stopped") {
  const std::string program =
      helper("echo $2 >> order; echo ready; cat > /dev/null; echo stopped $2 1; echo done ok\n");
  const auto out = take({.program = program,
                         .targets = {{.pid = 7, .role = model::ProcessRole::worker},
                                     {.pid = 8, .rank = 0, .role = model::ProcessRole::rank}}});
  CHECK(base::read_file("order").value() == "8\n7\n");
  CHECK(out.dump.processes[0].status == model::DumpStatus::ok);
}

TEST_CASE("a helper that fails, dies or hangs costs its own stacks only, and the reason is kept") {
  const std::string program = helper(
      "case $2 in 1) echo ready; echo 'done failed no permission'; exit 1;; 2) kill -9 $$;; 3) sleep 20 "
      "2>/dev/null;;\n"
      "4) exit 3;; esac; echo ready; cat > /dev/null; echo stopped 5 5; echo x > $4; echo wrote; echo done "
      "partial one "
      "thread\n");
  const auto out = take({.program = program,
                         .targets = {{.pid = 1, .rank = 11, .role = model::ProcessRole::rank},
                                     {.pid = 2, .rank = 12, .role = model::ProcessRole::rank},
                                     {.pid = 3, .rank = 13, .role = model::ProcessRole::rank},
                                     {.pid = 4, .rank = 14, .role = model::ProcessRole::rank},
                                     {.pid = 5, .rank = 15, .role = model::ProcessRole::rank}},
                         .prepare_s = 0.3,
                         .deadline_s = 0.8});
  REQUIRE(out.dump.processes.size() == 5);
  CHECK(out.dump.processes[0].reason == "no permission");
  CHECK(out.dump.processes[1].reason == "the dump helper died of SIGKILL");
  CHECK(out.dump.processes[2].status == model::DumpStatus::timeout);
  CHECK(out.dump.processes[3].reason.find("status 3") != std::string::npos);
  CHECK(out.dump.processes[4].status == model::DumpStatus::partial);
  CHECK(out.dump.processes[4].file == "rank-15.stacks.json");
  CHECK(out.dump.processes[0].file.empty());
}

TEST_CASE("a job without helpers or without targets still ends") {
  CHECK(take({.program = "./nothing", .targets = {{.pid = 1, .rank = 0, .role = model::ProcessRole::rank}}})
            .dump.processes.at(0)
            .status == model::DumpStatus::failed);
  CHECK(take({.program = "./nothing"}).dump.processes.empty());
}

TEST_CASE("xpurun does not wait for a killed helper that does not end") {
  // This test does not reap, like a helper in uninterruptible sleep.
  auto loop = EventLoop::create();
  REQUIRE(loop);
  DumpPlan request{.program = helper("echo ready; exec sleep 100\n"),
                   .directory = ".",
                   .host = "h",
                   .targets = {{.pid = 1, .rank = 0, .role = model::ProcessRole::rank}}};
  sigemptyset(&request.signal_mask);
  StackDumpOutcome out;
  base::Pid pid = 0;
  {
    DumpJob job(
        *loop, std::move(request), [&](base::Pid helper) { pid = helper; },
        [&](const StackDumpOutcome& o) {
          out = o;
          loop->after(0, [&] { loop->stop(); });
        });
    job.start();
    loop->after(0.05, [&] { job.give_up("the disk does not answer"); });
    REQUIRE(loop->run());
  }
  REQUIRE(out.processes.size() == 1);
  CHECK(out.processes[0].status == model::DumpStatus::timeout);
  CHECK(out.processes[0].reason == "the disk does not answer");
  CHECK(::waitpid(pid, nullptr, 0) == pid);
}
