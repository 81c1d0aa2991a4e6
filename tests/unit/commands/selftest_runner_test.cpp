#include "commands/selftest/trial_runner.h"
#include "common/base/os/io.h"
#include "common/base/os/temporary_directory.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sys/prctl.h>

using namespace xpurun;
using namespace xpurun::launcher;
namespace fs = std::filesystem;

namespace {

// Replaces xpurun: its fourth word is the run directory, and `body` is its script.
class FakeXpurun {
 public:
  explicit FakeXpurun(const std::string& body)
      : directory_(base::TemporaryDirectory::create("xpurun-selftest-test").value()) {
    std::ofstream(path()) << "#!/bin/sh\nmkdir -p \"$3\"\n" << body << "\n";
    fs::permissions(path(), fs::perms::owner_all);
  }

  std::string path() const { return directory_.path() + "/fake"; }

  std::vector<Trial> run(RunnerLimits limits, const std::vector<const Injection*>& chosen) {
    TrialSettings settings;
    settings.python = {"python3"};
    settings.scratch = directory_.path();
    auto runner = TrialRunner::create(settings, limits, path());
    REQUIRE(runner);
    std::vector<Trial> out;
    const auto signal = runner->run(chosen, [&](const Trial& trial) { out.push_back(trial); });
    REQUIRE(signal);
    CHECK(*signal == 0);
    // The runner adopts orphans; the other tests of this program count their children.
    REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 0) == 0);
    return out;
  }

 private:
  base::TemporaryDirectory directory_;
};

constexpr std::string_view kRunJson =
    R"({{"schema": "xpurun.run/1", "id": "x", "elapsed_s": 4, "outcome": "exit", "child_status": 0,
  "verdict": {{"schema": "xpurun.verdict/1", "id": "{}", "kind": "{}", "ranks": [{}], "sentence": "s"}}}})";

std::string writes(std::string_view id, std::string_view kind, std::string_view ranks) {
  return fmt::format("cat >\"$3/run.json\" <<'END'\n{}\nEND\n", fmt::format(kRunJson, id, kind, ranks));
}

const Injection* healthy() {
  return find_injection("healthy");
}

}  // namespace

TEST_CASE("selftest runner: the expected verdict is right, any other is wrong") {
  FakeXpurun good(writes("none.finished", "none", ""));
  auto trials = good.run({}, {healthy()});
  REQUIRE(trials.size() == 1);
  CHECK(trials[0].outcome == TrialOutcome::right);
  CHECK(trials[0].seconds < 0);  // there was no fault
  FakeXpurun bad(writes("hang.stuck", "hang", "2"));
  trials = bad.run({}, {healthy()});
  REQUIRE(trials.size() == 1);
  CHECK(trials[0].outcome == TrialOutcome::wrong);
  CHECK(trials[0].differences.size() == 2);  // id and ranks
}

TEST_CASE("selftest runner: all trials run, at any degree of parallelism") {
  FakeXpurun good(writes("none.finished", "none", ""));
  const auto* late = find_injection("late-enters");
  CHECK(good.run({.at_a_time = 2}, {healthy(), late, find_injection("segv")}).size() == 3);
}

TEST_CASE("selftest runner: an xpurun without a verdict is wrong") {
  FakeXpurun fails("exit 125");
  const auto trials = fails.run({}, {healthy()});
  REQUIRE(trials.size() == 1);
  CHECK(trials[0].outcome == TrialOutcome::wrong);
  CHECK(trials[0].differences.back() == "xpurun exited with status 125");
}

TEST_CASE("selftest runner: a trial that does not end is ended and wrong") {
  FakeXpurun stuck(writes("none.finished", "none", "") + "trap '' TERM\nwhile :; do sleep 1; done");
  const auto trials = stuck.run({.deadline_s = 0.2, .grace_s = 0.1, .linger_s = 0}, {healthy()});
  REQUIRE(trials.size() == 1);
  CHECK(trials[0].outcome == TrialOutcome::wrong);
  CHECK(trials[0].differences[0] == "did not end within 0 s");
}

TEST_CASE("selftest runner: processes that a trial leaves behind are killed, and the trial is wrong") {
  FakeXpurun leaves(writes("none.finished", "none", "") + "sleep 1000 &\necho $! >\"$3/pid\"");
  const auto trials = leaves.run({.linger_s = 0}, {healthy()});
  REQUIRE(trials.size() == 1);
  CHECK(trials[0].differences == std::vector<std::string>{"1 processes were left behind"});
  const int pid = std::stoi(base::read_file(trials[0].directory + "/run/pid").value());
  CHECK(::kill(pid, 0) != 0);
}

namespace {

constexpr double kAlwaysBusy = -1;  // any share of other programs is above this
constexpr double kNeverBusy = 1;

// A job that ended well, and of which the analysis finds no steps: wrong for every slow job.
std::string ends_without_steps() {
  return writes("none.finished", "none", "");
}

const Injection* slow_loader() {
  return find_injection("slow-loader");
}

}  // namespace

TEST_CASE("selftest runner: a wrong analysis on a quiet machine is wrong at once") {
  FakeXpurun wrong(ends_without_steps());
  const auto trials = wrong.run({.most_of_others = kNeverBusy}, {slow_loader()});
  REQUIRE(trials.size() == 1);
  CHECK(trials[0].outcome == TrialOutcome::wrong);
  CHECK(trials[0].directory.ends_with("/slow-loader"));
}

TEST_CASE("selftest runner: no machine is so busy that a slow job may fail or not end") {
  const RunnerLimits busy{.linger_s = 0, .most_of_others = kAlwaysBusy};
  FakeXpurun leaves(ends_without_steps() + "sleep 1000 &");
  CHECK(leaves.run(busy, {slow_loader()}).at(0).outcome == TrialOutcome::wrong);
  FakeXpurun fails(ends_without_steps() + "exit 3");
  CHECK(fails.run(busy, {slow_loader()}).at(0).outcome == TrialOutcome::wrong);
  FakeXpurun says_nothing("exit 0");
  CHECK(says_nothing.run(busy, {slow_loader()}).at(0).outcome == TrialOutcome::wrong);
  RunnerLimits short_deadline = busy;
  short_deadline.deadline_s = 0.2;
  short_deadline.grace_s = 0.1;
  FakeXpurun stuck(ends_without_steps() + "trap '' TERM\nwhile :; do sleep 1; done");
  const auto trials = stuck.run(short_deadline, {slow_loader()});
  CHECK(trials.at(0).outcome == TrialOutcome::wrong);
  CHECK(trials.at(0).differences.size() > 1);  // those of the analysis, and that it did not end
}

namespace {

// Counts the attempts in a file beside the script.
constexpr std::string_view kCountAttempt = "echo >>\"$0.attempts\"\nattempts=$(wc -l <\"$0.attempts\")\n";

size_t attempts_of(const FakeXpurun& fake) {
  return base::read_file(fake.path() + ".attempts").value_or("").size();
}

}  // namespace

TEST_CASE("selftest runner: a wrong analysis on a busy machine is repeated, and skipped in the end") {
  for (const int attempts : {1, 3}) {
    CAPTURE(attempts);
    FakeXpurun wrong(std::string(kCountAttempt) + ends_without_steps());
    const auto trials = wrong.run({.most_of_others = kAlwaysBusy, .attempts = attempts}, {slow_loader()});
    REQUIRE(trials.size() == 1);
    CHECK(trials[0].outcome == TrialOutcome::skipped);
    CHECK(trials[0].reason.starts_with("other programs used "));
    CHECK(attempts_of(wrong) == static_cast<size_t>(attempts));
    // Each attempt has a directory of its own, so the first results are kept.
    CHECK(trials[0].directory.ends_with(attempts == 1 ? "/slow-loader" : "/slow-loader-3"));
  }
}

TEST_CASE("selftest runner: a repeated trial that fails is wrong, and is not repeated again") {
  FakeXpurun fails(std::string(kCountAttempt) + ends_without_steps() + "[ \"$attempts\" -lt 2 ] || exit 3");
  const auto trials = fails.run({.most_of_others = kAlwaysBusy, .attempts = 5}, {slow_loader()});
  REQUIRE(trials.size() == 1);
  CHECK(trials[0].outcome == TrialOutcome::wrong);
  CHECK(attempts_of(fails) == 2);
  CHECK(trials[0].directory.ends_with("/slow-loader-2"));
}

TEST_CASE("selftest runner: a repeated trial delays the others only, and each is reported once") {
  FakeXpurun wrong(std::string(kCountAttempt) + ends_without_steps());
  const auto trials =
      wrong.run({.at_a_time = 1, .most_of_others = kAlwaysBusy, .attempts = 2}, {slow_loader(), healthy()});
  REQUIRE(trials.size() == 2);
  std::vector<std::string> names;
  for (const Trial& trial : trials) {
    names.emplace_back(trial.directory.substr(trial.directory.rfind('/') + 1));
  }
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"healthy", "slow-loader-2"});
  CHECK(attempts_of(wrong) == 3);
}
