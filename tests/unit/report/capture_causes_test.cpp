// What captures add to findings: lowered clocks as the cause, and functions; of the right time.
#include "report/build/speed/capture_causes.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::report;
using model::SlowCause;
using model::SpeedProblem;
using model::SpeedReport;

namespace {

constexpr int64_t kSince = 1'000;  // wall-clock time of the change
constexpr int kUsualMhz = 1980;

// All GPUs at `mhz`, those of `slow` at 1200 MHz.
model::CaptureReport capture_at(int64_t wall_ns, const model::RankSet& slow, int mhz = kUsualMhz) {
  model::CaptureReport out{.dir = "captures/1", .wall_ns = wall_ns};
  for (base::Rank r = 0; r < 4; ++r) {
    out.gpu.clocks.push_back({.rank = r, .sm_median_mhz = slow.contains(r) ? 1200 : mhz});
  }
  return out;
}

SpeedReport report_of(SpeedProblem problem, SlowCause cause, const model::RankSet& ranks, int64_t since) {
  SpeedReport out;
  out.findings = {{.problem = problem,
                   .cause = cause,
                   .ranks = ranks,
                   .since = since,
                   .since_wall_ns = since < 0 ? 0 : kSince,
                   .share = 0.2,
                   .sentence = "slow"}};
  if (cause != SlowCause::unknown) {
    out.what_if = {{.cause = SlowCause::input, .share = 0.3}, {.cause = cause, .share = 0.2}};
  }
  return out;
}

void name(SpeedReport& report) {
  name_from_captures(report, base::Language::english);
}

}  // namespace

TEST_CASE("capture causes: lower clocks of slow ranks, in the what-if too") {
  for (const SlowCause was : {SlowCause::gpu_compute, SlowCause::unknown}) {
    SpeedReport report = report_of(SpeedProblem::slow_rank, was, {1}, -1);
    report.captures = {capture_at(10, {1})};
    name(report);
    CHECK(report.findings[0].cause == SlowCause::throttling);
    CHECK(report.findings[0].sentence ==
          "slow; in a capture, the SM clock of rank 1 was 1200 MHz, that of the others 1980 MHz");
    CHECK(report.findings[0].next == "check the cooling and the power limit of the GPU");
    REQUIRE(!report.what_if.empty());
    CHECK(report.what_if.back().cause == SlowCause::throttling);
    CHECK(report.what_if.back().share == 0.2);
    for (const model::CauseShare& one : report.what_if) {
      CHECK(one.cause != SlowCause::gpu_compute);
    }
  }
}

TEST_CASE("capture causes: a slowdown of the job by these ranks has their cause") {
  SpeedReport report = report_of(SpeedProblem::slow_rank, SlowCause::gpu_compute, {1}, 100);
  report.findings.push_back(report.findings[0]);
  report.findings[1].problem = SpeedProblem::slower;
  report.captures = {capture_at(kSince + 1, {1})};
  name(report);
  CHECK(report.findings[1].cause == SlowCause::throttling);
}

TEST_CASE("capture causes: a capture from before the change says nothing") {
  SpeedReport report = report_of(SpeedProblem::slow_rank, SlowCause::gpu_compute, {1}, 100);
  model::CaptureReport early = capture_at(kSince - 1, {1});
  early.functions = {{.function = "collate",
                      .file = "data.py",
                      .line = 12,
                      .total = 0.02,
                      .own = 0.02,
                      .ranks = {1},
                      .ranks_total = 0.4,
                      .ranks_own = 0.4}};
  report.captures = {early};
  name(report);
  CHECK(report.findings[0].cause == SlowCause::gpu_compute);
  CHECK(report.findings[0].sentence == "slow");
  CHECK(report.findings[0].function.empty());
  report.captures[0].wall_ns = kSince + 1;
  name(report);
  CHECK(report.findings[0].cause == SlowCause::throttling);
  CHECK(report.findings[0].function == "collate (data.py:12)");
}

TEST_CASE("capture causes: a capture that began for another reason shows a change in its first half") {
  constexpr int64_t kSecond = 1'000'000'000;
  SpeedReport report = report_of(SpeedProblem::slow_rank, SlowCause::host_issue, {1}, 100);
  report.findings[0].since_wall_ns = 100 * kSecond;
  report.captures = {{.dir = "captures/1", .wall_ns = 97 * kSecond, .seconds = 10}};
  report.captures[0].functions = {{.function = "collate",
                                   .file = "data.py",
                                   .line = 12,
                                   .total = 0.02,
                                   .own = 0.02,
                                   .ranks = {1},
                                   .ranks_total = 0.4,
                                   .ranks_own = 0.4}};
  SUBCASE("most of it") {
    name(report);
    CHECK(report.findings[0].function == "collate (data.py:12)");
  }
  SUBCASE("four of its ten seconds") {
    report.captures[0].wall_ns = 94 * kSecond;
    name(report);
    CHECK(report.findings[0].function == "collate (data.py:12)");
  }
  SUBCASE("its end only") {
    report.captures[0].wall_ns = 92 * kSecond;
    name(report);
    CHECK(report.findings[0].function.empty());
  }
  SUBCASE("a spell that is shorter than the capture") {
    report.findings[0].problem = SpeedProblem::slower;
    report.findings[0].until = 160;
    report.findings[0].until_wall_ns = 104 * kSecond;
    name(report);
    CHECK(report.findings[0].function == "collate (data.py:12)");
    CHECK(report.findings[0].where.line == 12);
  }
  SUBCASE("a spell that was over") {
    report.findings[0].problem = SpeedProblem::slower;
    report.findings[0].until = 160;
    report.findings[0].until_wall_ns = 99 * kSecond;
    report.findings[0].since_wall_ns = 90 * kSecond;
    name(report);
    CHECK(report.findings[0].function.empty());
  }
}

TEST_CASE("capture causes: a thread that holds the GIL is the cause") {
  for (const SlowCause was : {SlowCause::host_issue, SlowCause::cpu_contention, SlowCause::unknown}) {
    SpeedReport report = report_of(SpeedProblem::slow_rank, was, {1}, -1);
    report.captures = {{.dir = "captures/1", .seconds = 10}};
    report.captures[0].gil_holders = {{.rank = 1,
                                       .thread = "Stats",
                                       .function = "aggregate",
                                       .file = "train.py",
                                       .line = 12,
                                       .share = 0.7}};
    name(report);
    const model::SpeedFinding& f = report.findings[0];
    CHECK(f.cause == SlowCause::host_issue);
    CHECK(f.function == "aggregate (train.py:12)");
    CHECK(f.where.line == 12);
    CHECK(
        f.sentence ==
        "slow; in a capture, the thread Stats of rank 1 held Python's GIL for 70 % of the time, in aggregate "
        "(train.py:12)");
  }
  // Of a slower job, no rank is accused, but the thread is named.
  SpeedReport all = report_of(SpeedProblem::slower, SlowCause::cpu_contention, {}, -1);
  all.captures = {{.dir = "captures/1", .seconds = 10}};
  all.captures[0].gil_holders = {
      {.rank = 1, .thread = "Stats", .function = "aggregate", .file = "train.py", .line = 12, .share = 0.7}};
  name(all);
  CHECK(all.findings[0].ranks.empty());
  CHECK(all.findings[0].function == "aggregate (train.py:12)");
}

TEST_CASE("capture causes: next steps of an ended job can be done after its end") {
  for (const SlowCause cause : {SlowCause::host_issue, SlowCause::unknown}) {
    SpeedReport report = report_of(SpeedProblem::slow_rank, cause, {1}, -1);
    name(report);
    CHECK(report.findings[0].next.find("while the job runs") != std::string::npos);
    name_from_captures(report, base::Language::english, {}, JobState::ended);
    CHECK(report.findings[0].next.find("while the job runs") == std::string::npos);
    CHECK(report.findings[0].next.find("run the job again") != std::string::npos);
  }
}

TEST_CASE("capture causes: other causes stay, and clocks like the others' say nothing") {
  SpeedReport input = report_of(SpeedProblem::slow_rank, SlowCause::gc, {1}, -1);
  input.captures = {capture_at(10, {1})};
  name(input);
  CHECK(input.findings[0].cause == SlowCause::gc);
  SpeedReport equal = report_of(SpeedProblem::slow_rank, SlowCause::gpu_compute, {1}, -1);
  equal.captures = {capture_at(10, {})};
  name(equal);
  CHECK(equal.findings[0].cause == SlowCause::gpu_compute);
}

TEST_CASE("capture causes: all GPUs at lower clocks than before explain a slower job") {
  SpeedReport report = report_of(SpeedProblem::slower, SlowCause::gpu_compute, {}, 100);
  report.captures = {capture_at(kSince - 1, {}), capture_at(kSince + 1, {}, 1400)};
  name(report);
  CHECK(report.findings[0].cause == SlowCause::throttling);
  CHECK(report.findings[0].sentence ==
        "slow; in a capture, all GPUs were throttled, the SM clock was 1400 MHz, before 1980 MHz");
  CHECK(report.what_if.back().cause == SlowCause::throttling);
  // One GPU at its usual clock: then it is not all.
  SpeedReport most = report_of(SpeedProblem::slower, SlowCause::gpu_compute, {}, 100);
  most.captures = {capture_at(kSince - 1, {}), capture_at(kSince + 1, {0, 1, 2})};
  name(most);
  CHECK(most.findings[0].cause == SlowCause::gpu_compute);
}

TEST_CASE("capture causes: without clocks from before, heat counts and the usual power cap does not") {
  SpeedReport report = report_of(SpeedProblem::slower, SlowCause::unknown, {}, 100);
  report.captures = {capture_at(kSince + 1, {}, 1400)};
  for (model::GpuClocks& c : report.captures[0].gpu.clocks) {
    c.throttled = {{model::ThrottleReason::power_cap, 0.9}, {model::ThrottleReason::thermal, 0}};
  }
  name(report);
  CHECK(report.findings[0].cause == SlowCause::unknown);
  CHECK(report.what_if.empty());
  for (model::GpuClocks& c : report.captures[0].gpu.clocks) {
    c.throttled[1].share = 0.6;
  }
  name(report);
  CHECK(report.findings[0].cause == SlowCause::throttling);
  CHECK(report.findings[0].sentence ==
        "slow; in a capture, all GPUs were throttled (thermal 60 %), the SM clock was 1400 MHz");
  REQUIRE(report.what_if.size() == 1);
  CHECK(report.what_if[0].share == 0.2);
}

TEST_CASE("capture causes: clocks that were watched explain a change without a capture") {
  const WatchedClocks watched = [](int64_t from, int64_t) {
    return capture_at(0, {}, from >= kSince ? 1400 : kUsualMhz).gpu;
  };
  SpeedReport report = report_of(SpeedProblem::slower, SlowCause::unknown, {}, 100);
  name_from_captures(report, base::Language::english, watched);
  CHECK(report.findings[0].cause == SlowCause::throttling);
  CHECK(report.findings[0].sentence ==
        "slow; meanwhile, all GPUs were throttled, the SM clock was 1400 MHz, before 1980 MHz");
  SpeedReport rank = report_of(SpeedProblem::slow_rank, SlowCause::gpu_compute, {1}, -1);
  name_from_captures(rank, base::Language::english, [](int64_t, int64_t) { return capture_at(0, {1}).gpu; });
  CHECK(rank.findings[0].cause == SlowCause::throttling);
  SpeedReport unchanged = report_of(SpeedProblem::slower, SlowCause::unknown, {}, 100);
  name_from_captures(unchanged, base::Language::english,
                     [](int64_t, int64_t) { return capture_at(0, {}).gpu; });
  CHECK(unchanged.findings[0].cause == SlowCause::unknown);
  SpeedReport none = report_of(SpeedProblem::slower, SlowCause::unknown, {}, 100);
  name_from_captures(none, base::Language::english, [](int64_t, int64_t) { return model::GpuCapture(); });
  CHECK(none.findings[0].cause == SlowCause::unknown);
}

TEST_CASE("capture causes: another program on the GPU of the slow rank alone") {
  const auto with_neighbours = [](const model::RankSet& on) {
    return [on](int64_t, int64_t) {
      model::GpuCapture out = capture_at(0, {}).gpu;
      for (model::GpuClocks& gpu : out.clocks) {
        gpu.neighbour = on.contains(gpu.rank) ? "python3 (pid 77)" : "";
      }
      return out;
    };
  };
  for (const SlowCause by_steps : {SlowCause::unknown, SlowCause::host_issue, SlowCause::gpu_compute}) {
    SpeedReport report = report_of(SpeedProblem::slow_rank, by_steps, {1}, 100);
    report.captures = {capture_at(kSince + 1, {})};
    report.captures[0].functions = {{.function = "<module>",
                                     .file = "train.py",
                                     .line = 46,
                                     .ranks = {1},
                                     .ranks_total = 0.4,
                                     .ranks_own = 0.4}};
    name_from_captures(report, base::Language::english, with_neighbours({1}));
    CHECK(report.findings[0].function.empty());
    CHECK(report.findings[0].cause == SlowCause::gpu_shared);
    CHECK(report.findings[0].sentence == "slow; python3 (pid 77) computes on the same GPU");
    CHECK(report.findings[0].next.find("nvidia-smi shows all of them") != std::string::npos);
  }
  for (const model::RankSet& on : {model::RankSet(), model::RankSet{2}, model::RankSet{0, 1, 2, 3}}) {
    SpeedReport report = report_of(SpeedProblem::slow_rank, SlowCause::host_issue, {1}, 100);
    name_from_captures(report, base::Language::english, with_neighbours(on));
    CHECK(report.findings[0].cause == SlowCause::host_issue);
  }
  SpeedReport input = report_of(SpeedProblem::slow_rank, SlowCause::input, {1}, 100);
  name_from_captures(input, base::Language::english, with_neighbours({1}));
  CHECK(input.findings[0].cause == SlowCause::input);
}

namespace {

// The GPUs of four ranks, idle for these shares of the time; those of `outliers` stand out.
model::IdleTime idle_at(int64_t wall_ns, const model::RankSet& outliers) {
  model::IdleTime out{.dir = "traces/2", .wall_ns = wall_ns};
  for (base::Rank r = 0; r < 4; ++r) {
    const bool slow = outliers.contains(r);
    out.ranks.push_back(
        {.rank = r, .window_s = 2, .idle_s = slow ? 0.82 : 0.24, .others_void_share = 0.12, .outlier = slow});
  }
  return out;
}

}  // namespace

TEST_CASE(
    "capture causes: a GPU without work makes an unknown cause the host's, and is evidence for others") {
  const std::string words = "slow; no work ran on its GPU 41 % of the time, on the others 12 % (traces/2)";
  for (const SlowCause was : {SlowCause::unknown, SlowCause::host_issue, SlowCause::input}) {
    SpeedReport report = report_of(SpeedProblem::slow_rank, was, {1}, -1);
    report.operations.idle = {idle_at(10, {1})};
    name(report);
    CHECK(report.findings[0].cause == (was == SlowCause::unknown ? SlowCause::host_issue : was));
    CHECK(report.findings[0].sentence == words);
  }
  SpeedReport two = report_of(SpeedProblem::slow_rank, SlowCause::host_issue, {1, 2}, -1);
  two.operations.idle = {idle_at(10, {1, 2})};
  name(two);
  CHECK(two.findings[0].sentence ==
        "slow; no work ran on their GPUs 41 % of the time, on the others 12 % (traces/2)");
}

TEST_CASE("capture causes: void shares that say nothing about the finding") {
  SpeedReport early = report_of(SpeedProblem::slow_rank, SlowCause::unknown, {1}, 100);
  early.operations.idle = {idle_at(kSince - 1, {1})};
  SpeedReport other = report_of(SpeedProblem::slow_rank, SlowCause::unknown, {1}, -1);
  other.operations.idle = {idle_at(10, {2})};
  SpeedReport part = report_of(SpeedProblem::slow_rank, SlowCause::unknown, {1, 2}, -1);
  part.operations.idle = {idle_at(10, {1})};
  SpeedReport all = report_of(SpeedProblem::slower, SlowCause::unknown, {}, -1);
  all.operations.idle = {idle_at(10, {1})};
  for (SpeedReport* report : {&early, &other, &part, &all}) {
    name(*report);
    CHECK(report->findings[0].cause == SlowCause::unknown);
    CHECK(report->findings[0].sentence == (report == &all ? "slow" : "slow; the cause is not known"));
  }
  SpeedReport gpu = report_of(SpeedProblem::slow_rank, SlowCause::gpu_compute, {1}, -1);
  gpu.operations.idle = {idle_at(10, {1})};
  name(gpu);
  CHECK(gpu.findings[0].sentence == "slow");
}

TEST_CASE("capture causes: where no steps are known, a late rank that a capture sees do more is slow") {
  SpeedReport report;
  report.captures = {{.dir = "captures/1", .reason = "slow", .seconds = 10}};
  report.captures[0].functions = {{.function = "relax",
                                   .file = "/home/u/heat.py",
                                   .line = 5,
                                   .own = 0.04,
                                   .ranks = {2},
                                   .ranks_own = 0.54}};
  std::vector<model::AwaitedRank> late = {{.rank = 2, .at_s = 5, .share = 0.39}};
  const auto findings = [&] {
    add_awaited_ranks(report, late, base::Language::english);
    name(report);
    return report.findings.size();
  };
  SUBCASE("until the end") {
    REQUIRE(findings() == 1);
    CHECK(report.findings[0].ranks == model::RankSet{2});
    CHECK(report.findings[0].confidence == model::Confidence::medium);
    CHECK(report.findings[0].where.line == 5);
    CHECK(
        report.findings[0].sentence ==
        "rank 2 keeps the others waiting for 39 % of the time; in a capture, rank 2 spends 54 % of its time "
        "in relax (heat.py:5), the others 4 %");
    return;
  }
  SUBCASE("not where steps are known") {
    report.steps = 100;
  }
  SUBCASE("not once it was over") {
    late[0].cleared_s = 20;
  }
  SUBCASE("not where the capture names another rank") {
    report.captures[0].functions[0].ranks = {1};
  }
  SUBCASE("not where it only waits longer") {
    report.captures[0].functions[0].waits = true;
  }
  CHECK(findings() == 0);
}
