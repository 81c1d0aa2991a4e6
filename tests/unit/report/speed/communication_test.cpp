// Exposed and hidden communication of steps, against a count of moments.
#include "report/speed/steps/communication.h"

#include "report/speed/analysis.h"
#include "tests/unit/report/speed/made_job.h"

#include <doctest/doctest.h>

#include <array>
#include <random>

using namespace xpurun;
using namespace xpurun::report;

namespace {

constexpr uint32_t kStepThread = 7;
constexpr int kMoments = 300;

RankSteps three_steps() {
  RankSteps out;
  for (const int64_t begin : {0, 100, 200}) {
    out.steps.push_back({.begin_ns = begin, .duration_ns = 100});
  }
  return out;
}

model::EventFile gpu_file() {
  model::EventFile file;
  file.ops[1].key.op_class = static_cast<uint8_t>(wire::OpClass::matmul);
  file.ops[2].key.op_class = static_cast<uint8_t>(wire::OpClass::collective);
  file.communicators.push_back({.slot = 0, .identity = 77, .rank = 0, .nranks = 4});
  file.communicators.push_back({.slot = 1, .identity = 78, .rank = 0, .nranks = 1});
  return file;
}

void put_event(model::EventFile& file, uint32_t op, uint64_t begin, uint64_t end, int communicator,
               wire::Source source = wire::Source::events) {
  file.events.push_back({.event = {.begin_ns = begin,
                                   .duration_ns = end - begin,
                                   .op = op,
                                   .sequence = 1,
                                   .source = static_cast<uint8_t>(source)},
                         .communicator = communicator});
}

model::Span call_span(int64_t begin, int64_t end, uint32_t thread) {
  return {
      .begin_ns = begin, .duration_ns = end - begin, .stage = model::Stage::communication, .thread = thread};
}

}  // namespace

TEST_CASE("communication on a GPU is hidden where the GPU computes") {
  RankRecord rank{.rank = 0, .gpu = "0"};
  model::EventFile file = gpu_file();
  put_event(file, 2, 10, 60, 0);
  put_event(file, 1, 0, 30, -1);
  put_event(file, 2, 90, 120, 0);   // in two steps
  put_event(file, 2, 140, 160, 1);  // of a communicator of one rank
  put_event(file, 1, 90, 110, -1, wire::Source::host_call);
  put_event(file, 2, 230, 240, 0);
  rank.events.push_back(file);
  RankSteps steps = three_steps();
  steps.holes.push_back({.begin_ns = 210, .end_ns = 220});
  add_communication(rank, {}, kStepThread, steps);
  CHECK(steps.steps[0].exposed_ns == 40);
  CHECK(steps.steps[0].hidden_ns == 20);
  CHECK(steps.steps[1].exposed_ns == 20);
  CHECK(steps.steps[1].hidden_ns == 0);
  CHECK(steps.steps[2].exposed_ns == -1);
  CHECK(steps.steps[2].hidden_ns == -1);
}

TEST_CASE("without a GPU the calls of other threads are hidden") {
  RankSpans spans;
  spans.spans = {call_span(10, 40, kStepThread), call_span(30, 70, 8), call_span(150, 250, 8)};
  RankSteps steps = three_steps();
  add_communication({.rank = 0}, spans, kStepThread, steps);
  CHECK(steps.steps[0].exposed_ns == 30);
  CHECK(steps.steps[0].hidden_ns == 30);
  CHECK(steps.steps[1].exposed_ns == 0);
  CHECK(steps.steps[1].hidden_ns == 50);
  CHECK(steps.steps[2].hidden_ns == 50);
  RankSteps silent = three_steps();
  add_communication({.rank = 0}, {}, kStepThread, silent);
  CHECK(silent.steps[0].exposed_ns == -1);
}

TEST_CASE("exposed and hidden communication of random calls are the moments of each") {
  std::mt19937 random(11);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  for (int round = 0; round < 300; ++round) {
    std::array<bool, kMoments> communicates{};
    std::array<bool, kMoments> computes{};
    model::EventFile file = gpu_file();
    for (int i = 1 + below(12); i > 0; --i) {
      const bool collective = i == 1 || below(2) == 0;
      const int begin = below(kMoments - 1);
      const int end = begin + 1 + below(kMoments - begin - 1);
      put_event(file, collective ? 2 : 1, static_cast<uint64_t>(begin), static_cast<uint64_t>(end),
                collective ? 0 : -1);
      auto& moments = collective ? communicates : computes;
      std::fill(moments.begin() + begin, moments.begin() + end, true);
    }
    RankRecord rank{.rank = 0, .gpu = "0"};
    rank.events.push_back(file);
    RankSteps steps = three_steps();
    add_communication(rank, {}, kStepThread, steps);
    for (const StepRecord& step : steps.steps) {
      int64_t exposed = 0;
      int64_t hidden = 0;
      for (auto t = static_cast<size_t>(step.begin_ns); t < static_cast<size_t>(step.begin_ns) + 100; ++t) {
        exposed += communicates[t] && !computes[t] ? 1 : 0;
        hidden += communicates[t] && computes[t] ? 1 : 0;
      }
      CHECK(step.exposed_ns == exposed);
      CHECK(step.hidden_ns == hidden);
    }
  }
}

TEST_CASE("the report has the communication of the ranks and of the steps") {
  tests::MadeJob job{.ranks = 3, .steps = 60, .visible_calls = true, .noise = 0};
  job.change = [](int rank, int step, tests::StepParts& p) {
    p.transfer = step >= 30 ? 15 : 5;
    p.forward += rank == 1 ? 0.5 : 0;
  };
  const auto report = analyse_speed(tests::make_ranks(job));
  REQUIRE(report.ranks.size() == 3);
  CHECK(report.ranks[1].exposed_s == doctest::Approx(report.ranks[1].stages[model::Stage::communication]));
  CHECK(report.ranks[0].exposed_s - report.ranks[1].exposed_s == doctest::Approx(0.0005).epsilon(0.01));
  CHECK(report.ranks[0].hidden_s == 0);
  REQUIRE(report.series.size() == 59);
  CHECK(report.series[10].exposed_s == doctest::Approx(0.00533).epsilon(0.01));
  CHECK(report.series[50].exposed_s == doctest::Approx(0.01533).epsilon(0.01));
  const auto silent = analyse_speed(tests::make_ranks({.ranks = 2, .steps = 60}));
  CHECK(silent.ranks[0].exposed_s == -1);
  CHECK(silent.series[3].hidden_s == -1);
}
