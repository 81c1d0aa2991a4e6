// Steps, bubbles and the critical stage from jobs whose times were computed by hand.
#include "report/pipeline/bubbles.h"
#include "report/pipeline/clock_order.h"
#include "tests/unit/report/pipeline/made_pipeline.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::tests;
using doctest::Approx;

TEST_CASE("1F1B of two equal stages with four micro-batches") {
  // Stage 0: F0 0-1, F1 1-2, B0 4-6, F2 6-7, B1 7-9, F3 9-10, B2 10-12, B3 13-15.
  // Stage 1: F0 1-2, B0 2-4, F1 4-5, B1 5-7, F2 7-8, B2 8-10, F3 10-11, B3 11-13.
  const auto report = find(make_ranks({.stages = {{}, {}}, .batches = 4}));
  REQUIRE(report);
  REQUIRE(report->pipelines.size() == 1);
  const model::Pipeline& p = report->pipelines[0];
  const std::vector<std::pair<int64_t, int64_t>> expected{{0, 1}, {1, 1}, {4, 2},  {6, 1},
                                                          {7, 2}, {9, 1}, {10, 2}, {13, 2}};
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK(p.stages[0].jobs[i].begin_ns == expected[i].first * kMs);
    CHECK(p.stages[0].jobs[i].duration_ns == expected[i].second * kMs);
  }
  REQUIRE(p.steps.size() == 1);
  CHECK(p.steps[0].complete);
  CHECK(p.steps[0].jobs == 4);
  CHECK(p.step_s == Approx(0.015));
  // Both work 12 of 15 ms: (p - 1) / (m + p - 1) = 1/5.
  CHECK(p.stages[0].bubble == Approx(0.2));
  CHECK(p.stages[1].bubble == Approx(0.2));
  CHECK(p.bubble == Approx(0.2));
  CHECK(p.schedule == Approx(0.2));
  CHECK(p.stages[0].forward_s == Approx(0.001));
  CHECK(p.stages[0].backward_s == Approx(0.002));
  CHECK(p.critical == -1);
  CHECK(p.sentence.find("no stage stands out") != std::string::npos);
  // The micro-batches are numbered in the order of the calls.
  CHECK(p.stages[0].jobs[2].micro_batch == 0);
  CHECK(p.stages[0].jobs[3].micro_batch == 2);
  CHECK(p.stages[0].jobs[3].type == "forward");
}

TEST_CASE("1F1B of four equal stages with eight micro-batches") {
  // (8 + 3) times 3 ms; each stage works 24 of 33 ms.
  const auto report = find(make_ranks({.stages = {{}, {}, {}, {}}, .batches = 8, .steps = 3}));
  REQUIRE(report);
  const model::Pipeline& p = report->pipelines[0];
  REQUIRE(p.steps.size() == 3);
  CHECK(p.step_s == Approx(0.033));
  for (const model::PipelineStage& stage : p.stages) {
    CHECK(stage.busy_s == Approx(0.024));
    CHECK(stage.bubble == Approx(9.0 / 33));
  }
  CHECK(p.schedule == Approx(3.0 / 11));
  CHECK(bubble_of_schedule(4, 8) == Approx(3.0 / 11));
  CHECK(bubble_of_schedule(1, 8) == 0);
  CHECK(bubble_of_schedule(4, 0) == 0);
  // Steps follow each other behind the optimizer.
  CHECK(p.steps[1].begin_s == Approx(0.034));
  CHECK(p.stages[0].jobs.back().step == 2);
}

TEST_CASE("steps that were timed in part do not count where others were timed whole") {
  auto ranks = make_ranks({.stages = {{}, {}}, .batches = 4, .steps = 3});
  const int64_t second = kBegin + 16 * kMs;
  for (RankJobs& rank : ranks) {
    for (Job& job : rank.jobs) {
      job.gpu = true;
      const bool is_first = job.begin_ns < second;
      job.at_least = is_first;
      job.end_ns -= is_first ? (job.end_ns - job.begin_ns) / 2 : 0;
    }
  }
  const auto report = find(ranks);
  REQUIRE(report);
  const model::Pipeline& p = report->pipelines[0];
  CHECK(p.steps[0].at_least);
  CHECK_FALSE(p.steps[1].at_least);
  CHECK_FALSE(p.at_least);
  CHECK(p.stages[0].forward_s == Approx(0.001));
  CHECK(p.bubble == Approx(0.2));
  CHECK(p.stages[0].at_least_share == Approx(9.0 / 27));
  CHECK(p.sentence.find("not timed") == std::string::npos);
  // All were timed in part: the numbers are limits.
  for (RankJobs& rank : ranks) {
    for (Job& job : rank.jobs) {
      job.at_least = true;
    }
  }
  const auto limits = find(ranks);
  CHECK(limits->pipelines[0].at_least);
  CHECK(limits->sentence.find("a part of the GPU work was not timed") != std::string::npos);
}

TEST_CASE("the slowest stage is critical, and the saving is its excess") {
  const MadePipeline slow{
      .stages = {{}, {}, {.forward_ms = 2, .backward_ms = 4}, {}}, .batches = 8, .steps = 2};
  const auto report = find(make_ranks(slow));
  REQUIRE(report);
  const model::Pipeline& p = report->pipelines[0];
  CHECK(p.critical == 2);
  CHECK(p.steps[0].critical == 2);
  // The made job without the excess is shorter by 22 ms: a part of it hides behind the filling of the
  // pipeline.
  const auto equal = find(make_ranks({.stages = {{}, {}, {}, {}}, .batches = 8, .steps = 2}));
  CHECK(p.step_s - equal->pipelines[0].step_s == Approx(0.022));
  CHECK(p.saving_s == Approx(0.024));
  CHECK(p.sentence.find("stage 2 (rank 2) is critical: it works 48 ms per step") != std::string::npos);
  // Its own bubble is the least.
  CHECK(p.stages[2].bubble < p.stages[0].bubble);
}

TEST_CASE("an excess below the limit is no critical stage") {
  MadePipeline made{.stages = {{100, 200}, {101, 202}}, .batches = 4};
  CHECK(find(make_ranks(made))->pipelines[0].critical == -1);
  made.stages[1] = {110, 220};
  CHECK(find(make_ranks(made))->pipelines[0].critical == 1);
}

TEST_CASE("without optimizer and marks a step ends when all forward jobs have their backward jobs") {
  const auto report = find(make_ranks({.stages = {{}, {}, {}}, .batches = 5, .steps = 4, .optimizer_ms = 0}));
  REQUIRE(report);
  CHECK(report->pipelines[0].steps.size() == 4);
  CHECK(report->pipelines[0].step_s == Approx(0.021));
}

TEST_CASE("marks of the program end steps as optimizers do") {
  // Two ranks without order between them: gradient accumulation would look like a step for each micro-batch.
  std::vector<RankJobs> ranks = make_ranks({.stages = {{}, {}}, .batches = 1, .steps = 4, .optimizer_ms = 0});
  CHECK(find(ranks)->pipelines[0].steps.size() == 4);
  for (RankJobs& rank : ranks) {
    rank.step_marks = {kBegin + 12 * kMs};
  }
  const auto report = find(ranks);
  REQUIRE(report);
  CHECK(report->pipelines[0].steps.size() == 2);
}

TEST_CASE("a file that begins inside of a step") {
  std::vector<RankJobs> ranks = make_ranks({.stages = {{}, {}, {}}, .batches = 6, .steps = 3});
  ranks[1].jobs.erase(ranks[1].jobs.begin(), ranks[1].jobs.begin() + 5);
  ranks[0].jobs.erase(ranks[0].jobs.begin(), ranks[0].jobs.begin() + 7);
  const auto report = find(ranks);
  REQUIRE(report);
  const model::Pipeline& p = report->pipelines[0];
  const auto complete =
      std::count_if(p.steps.begin(), p.steps.end(), [](const model::PipelineStep& s) { return s.complete; });
  CHECK(complete == 2);
  CHECK(p.step_s == Approx(0.024));
  CHECK(p.bubble == Approx(0.25));
}

TEST_CASE("lost backward jobs end with the optimizer") {
  std::vector<RankJobs> ranks = make_ranks({.stages = {{}, {}}, .batches = 4, .steps = 3});
  std::erase_if(ranks[0].jobs, [](const Job& j) { return j.begin_ns == kBegin + 4 * kMs; });
  const auto report = find(ranks);
  REQUIRE(report);
  CHECK(report->pipelines[0].steps.size() == 3);
  CHECK_FALSE(report->pipelines[0].steps[0].complete);
  CHECK(report->pipelines[0].steps[2].complete);
  ranks = make_ranks({.stages = {{}, {}}, .batches = 4});
  std::erase_if(ranks[0].jobs, [](const Job& j) { return j.kind == model::JobKind::backward; });
  const auto none = find(ranks);
  REQUIRE(none);
  CHECK(none->pipelines[0].step_s == 0);
  CHECK(none->sentence.find("no complete step") != std::string::npos);
}

TEST_CASE("the part of backward for the weights is work, not a bubble") {
  std::vector<RankJobs> ranks = make_ranks({.stages = {{}, {}}, .batches = 4});
  ranks[0].jobs.push_back(
      {.begin_ns = kBegin + 12 * kMs, .end_ns = kBegin + 13 * kMs, .kind = model::JobKind::weight});
  put_in_order(ranks[0].jobs);
  const auto report = find(ranks);
  CHECK(report->pipelines[0].stages[0].bubble == Approx(2.0 / 15));
}

TEST_CASE("several pipelines") {
  std::vector<RankJobs> ranks = make_ranks({.stages = {{}, {}}, .batches = 4});
  std::vector<RankJobs> slow = make_ranks({.stages = {{2, 4}, {2, 4}}, .batches = 4});
  for (RankJobs& rank : slow) {
    rank.rank += 2;
    ranks.push_back(rank);
  }
  SUBCASE("by the groups of their sends") {
    for (RankJobs& rank : ranks) {
      rank.groups = {rank.rank < 2 ? "a" : "b"};
    }
    const auto report = find(ranks);
    REQUIRE(report);
    REQUIRE(report->pipelines.size() == 2);
    CHECK(report->pipelines[0].name == "ranks 0-1");
    CHECK(report->pipelines[1].stages[1].rank == 3);
    CHECK(report->pipelines[1].stages[1].stage == 1);
    CHECK(report->sentence.starts_with("2 pipelines; the slowest, ranks 2-3: "));
  }
  SUBCASE("pairs of neighbours are one pipeline") {
    for (RankJobs& rank : ranks) {
      rank.groups = {fmt::format("{}", rank.rank), fmt::format("{}", rank.rank + 1)};
    }
    const auto report = find(ranks);
    REQUIRE(report);
    REQUIRE(report->pipelines.size() == 1);
    CHECK(report->pipelines[0].stages.size() == 4);
    CHECK(report->pipelines[0].name.empty());
  }
  SUBCASE("ranks that send nothing that they computed are no stages") {
    for (RankJobs& rank : ranks) {
      rank.sends_forwards = false;
    }
    CHECK_FALSE(find(ranks));
  }
  SUBCASE("by named groups") {
    PipelineOptions options;
    options.groups = *GroupOrder::parse("pp2-dp2");
    const auto report = find(ranks, options);
    REQUIRE(report);
    REQUIRE(report->pipelines.size() == 2);
    CHECK(report->pipelines[0].name == "dp0");
    options.groups = *GroupOrder::parse("dp2-pp2");
    CHECK(find(ranks, options)->pipelines[1].stages[1].rank == 3);
  }
  SUBCASE("a single rank is none") {
    ranks.resize(1);
    CHECK_FALSE(find(ranks));
  }
}

TEST_CASE("clocks of hosts from the order of the jobs") {
  std::vector<RankJobs> ranks =
      make_ranks({.stages = {{}, {}, {}}, .batches = 6, .steps = 2, .numbered = true});
  const auto right = find(ranks);
  CHECK(right->notes.empty());
  CHECK(clock_corrections(*right).empty());
  for (Job& job : ranks[1].jobs) {
    job.begin_ns -= 5 * kMs / 2;
    job.end_ns -= 5 * kMs / 2;
  }
  const auto report = find(ranks);
  REQUIRE(report);
  CHECK(report->pipelines[0].step_s == Approx(right->pipelines[0].step_s));
  REQUIRE(report->notes.size() == 1);
  CHECK(report->notes[0].find("node1 was moved by +2.500 ms") != std::string::npos);
  // Two stages of one host have one clock: nothing is moved.
  for (RankJobs& rank : ranks) {
    rank.host = "a";
  }
  CHECK(find(ranks)->notes.empty());
  // Clocks that the caller knows are left as they are.
  PipelineFinder finder({});
  for (RankJobs& rank : ranks) {
    rank.host = fmt::format("node{}", rank.rank);
    finder.add(rank);
  }
  CHECK(finder.finish([](const std::string&) { return 0; })->notes.empty());
}
