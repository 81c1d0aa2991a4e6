#include "launcher/capture/capture_runner.h"

#include "common/base/os/io.h"
#include "tests/unit/launcher/job_scene.h"

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <sys/wait.h>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

struct Outcome {
  std::string dir;
  std::string problem;
  std::string words;  // of the command line
  std::string trace;  // that is active at the end
};

// A shell script instead of xpurun.
Outcome capture_by(const std::string& body, CaptureRequest request, bool gpu = false) {
  REQUIRE(base::write_file_atomic("recorder", "#!/bin/sh\necho \"$@\" > words\n" + body));
  REQUIRE(::chmod("recorder", 0700) == 0);
  auto loop = EventLoop::create();
  REQUIRE(loop);
  DirectStorage storage(&*loop);
  ProcessTable table(::getpid(), base::mono_ns());
  Collector collector(wire::Level::light, 1000);
  TraceSession trace({*loop, storage, table, collector}, "run", [] {});
  sigset_t mask;
  sigemptyset(&mask);
  int started = 0;
  int saved = 0;
  ActivitySession activity({*loop, storage, table, collector}, "host",
                           {.step_s = [](base::MonoNs, base::MonoNs) { return -1.0; }});
  CaptureRunner runner({*loop, storage, trace, activity}, "run", mask, -1,
                       {.save_run = [&] { ++saved; },
                        .uses_gpu = [gpu] { return gpu; },
                        .started = [&](base::Pid) { ++started; }});
  runner.set_program("./recorder");
  Outcome out;
  const auto begun =
      runner.start(std::move(request), [&](const std::string& dir, const std::string& problem) {
        out.dir = dir;
        out.problem = problem;
        out.trace = trace.dir();
        loop->stop();
      });
  CHECK(begun.value_or("") == "captures/1");
  CHECK(runner.busy());
  CHECK_FALSE(runner.start({}, {}));
  std::function<void()> reap = [&] {
    int status = 0;
    for (base::Pid pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      CHECK(runner.helper_ended(pid, base::WaitStatus(status)));
    }
    loop->after(0.005, reap);
  };
  reap();
  REQUIRE(loop->run());
  CHECK_FALSE(runner.busy());
  CHECK(started == (gpu ? 2 : 1));  // a GPU's clocks are read by a second one
  CHECK(saved == 1);
  out.words = base::read_file("words").value_or("");
  return out;
}

}  // namespace

TEST_CASE("a capture is recorded by a process of its own") {
  const auto done = capture_by("exit 0\n", {.seconds = 1.5, .rate = 20, .reason = "slow"});
  CHECK(done.dir == "captures/1");
  CHECK(done.problem.empty());
  CHECK(done.trace.empty());
  CHECK(done.words ==
        "record --run run --workers --quiet --duration 1500ms --rate 20 --reason slow --format json --out "
        "run/captures/1/profile.json\n");
}

TEST_CASE("a capture of some ranks samples only these") {
  CHECK(
      capture_by("exit 0\n", {.reason = "request", .ranks = {0, 1, 5}}).words.ends_with(" --ranks 0-1,5\n"));
}

TEST_CASE("a capture that fails says why") {
  CHECK(capture_by("exit 1\n", {.reason = "slow"}).problem ==
        "the process that records exited with status 1");
}

TEST_CASE("captures that begin by themselves: some at once, others after pauses that grow") {
  CaptureBudget budget;
  base::MonoNs now = base::s_to_ns(100);
  for (int i = 0; i < CaptureBudget::kAtOnce; ++i) {
    CHECK(budget.allows(now));
    budget.use(now);
  }
  for (double pause_s = CaptureBudget::kFirstPauseS; pause_s < 3000; pause_s *= 2) {
    CHECK_FALSE(budget.allows(now + base::s_to_ns(pause_s - 1)));
    now += base::s_to_ns(pause_s);
    CHECK(budget.allows(now));
    budget.use(now);
  }
}

TEST_CASE("the timed calls of GPU ranks are traced where CUPTI records nothing") {
  CHECK(capture_by("exit 0\n", {.reason = "request"}, true).trace == "traces/1-capture-1");
}

TEST_CASE("when the job has become slower, the timed calls are traced before CUPTI records") {
  const auto done = capture_by("exit 0\n", {.reason = "slow"}, true);
  CHECK(done.problem.empty());
  CHECK(done.trace.empty());
  CHECK(base::read_file("run/traces/1-capture-1/trace.json"));
}
