#include "common/base/os/io.h"
#include "launcher/storage/direct_storage.h"
#include "launcher/supervise/reporting/report_runner.h"

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <sys/wait.h>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

// A shell script instead of xpurun.
ReportResult report_by(const std::string& body, const std::function<void(Storage&)>& before = {},
                       const std::function<void(const ReportResult&)>& on_verdict = {}) {
  REQUIRE(base::write_file_atomic("reporter", "#!/bin/sh\n" + body));
  REQUIRE(::chmod("reporter", 0700) == 0);
  auto loop = EventLoop::create();
  REQUIRE(loop);
  DirectStorage storage(&*loop);
  HelperComplaints complaints(*loop);
  sigset_t mask;
  sigemptyset(&mask);
  ReportRunner runner({*loop, storage, complaints}, "some/run", mask);
  runner.set_program("./reporter");
  ReportResult out;
  runner.set_handlers([](base::Pid) {}, [&](const ReportResult& result) { out = result; },
                      [&] { loop->stop(); });
  runner.on_verdict(on_verdict);
  if (before) {
    before(storage);
  }
  runner.request();
  std::function<void()> reap = [&] {
    int status = 0;
    for (base::Pid pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      CHECK(runner.helper_ended(pid, base::WaitStatus(status)));
    }
    loop->after(0.005, reap);
  };
  reap();
  REQUIRE(loop->run());
  return out;
}

constexpr const char* kVerdict = R"(echo '{"schema":"xpurun.verdict/1","kind":"hang","sentence":"hang: x"}')";

}  // namespace

TEST_CASE("the verdict comes from the process, not from the disk") {
  const auto result = report_by(std::string(kVerdict) + "\n");
  REQUIRE(result.verdict);
  CHECK(result.verdict->sentence == "hang: x");
  CHECK(result.problem.empty());
}

TEST_CASE("an unwritable report still has its verdict, with the process's reason") {
  const auto result = report_by(std::string(kVerdict) + "\necho 'no space' >&2\nexit 1\n");
  REQUIRE(result.verdict);
  CHECK(result.problem == "no space");
}

TEST_CASE("a failed report gives its reason in words") {
  CHECK(report_by("exit 3\n").problem.find("exited with status 3") != std::string::npos);
  CHECK(report_by("kill -9 $$\n").problem.find("killed by SIGKILL") != std::string::npos);
  CHECK_FALSE(report_by("echo nonsense\n").verdict);
}

TEST_CASE("no report is made of an outdated directory") {
  const auto result = report_by(std::string(kVerdict) + "\n",
                                [](Storage& storage) { storage.replace("reporter/run.json", "x"); });
  CHECK_FALSE(result.verdict);
  CHECK(result.problem.find("reporter/run.json") != std::string::npos);
}

TEST_CASE("the verdict's words in another language come with it") {
  const auto result = report_by(
      R"(echo '{"schema":"xpurun.verdict/1","kind":"hang","sentence":"hang: x","translation":{"language":"zh",)"
      R"("sentence":"挂起：x","headline":"x","evidence":["甲"],"next_text":"","next_command":""}}')"
      "\n");
  REQUIRE(result.verdict);
  CHECK(result.verdict->sentence == "hang: x");
  REQUIRE(result.spoken);
  CHECK(result.spoken->sentence == "挂起：x");
  CHECK(result.spoken->kind == model::VerdictKind::hang);
}

TEST_CASE("the verdict is told once, before the report is written, and only if there is one") {
  std::vector<ReportResult> early;
  const auto keep = [&early](const ReportResult& result) {
    early.push_back(result);
    // The process waits for this.
    REQUIRE(base::write_file_atomic("told", ""));
  };
  const auto result = report_by(std::string(kVerdict) +
                                    "\nfor i in $(seq 2000); do [ -e told ] && break; sleep 0.01; done\n"
                                    "[ -e told ] || exit 1\necho more\necho 'no space' >&2\nexit 1\n",
                                {}, keep);
  REQUIRE(early.size() == 1);
  REQUIRE(early[0].verdict);
  CHECK(early[0].verdict->sentence == "hang: x");
  CHECK(early[0].unfinished);
  CHECK(early[0].problem.empty());
  REQUIRE(result.verdict);
  CHECK_FALSE(result.unfinished);
  CHECK(result.problem == "no space");
  early.clear();
  (void)report_by("echo nonsense\nsleep 0.1\n", {}, keep);
  CHECK(early.empty());
}
