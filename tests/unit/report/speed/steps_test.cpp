// Steps without a change of the user's code.
#include "report/speed/primitives/statistics.h"
#include "report/speed/steps/step_ends.h"
#include "report/speed/steps/step_records.h"
#include "report/speed/steps/token_period.h"
#include "tests/unit/report/speed/made_job.h"

#include <doctest/doctest.h>

#include <numeric>

using namespace xpurun;
using namespace xpurun::report;
using model::Stage;
using model::StepSource;

namespace {

// Appends spans one after the other; times in ms.
class Program {
 public:
  Program() {
    input.rank = 0;
    input.spans.resize(1);
    file().names = {"", "Adam.step", "SGD.step", "a.py:1", "b.py:2", "all_reduce", "broadcast", "world"};
  }
  model::SpanFile& file() { return input.spans[0]; }
  Program& span(Stage stage, double length, uint32_t name = 1, uint32_t place = 3, uint64_t bytes = 0) {
    file().spans.push_back({.begin_ns = now,
                            .duration_ns = tests::ms(length),
                            .cpu_ns = tests::ms(length / 2),
                            .stage = stage,
                            .name = name,
                            .place = place,
                            .thread = 7,
                            .group = stage == Stage::communication ? 7U : 0U,
                            .bytes = bytes});
    now += tests::ms(length);
    return *this;
  }
  Program& gap(double length) {
    now += tests::ms(length);
    return *this;
  }
  StepEnds ends() const { return find_step_ends(join_spans(input), input); }

  RankRecord input;
  int64_t now = 1'000'000'000;
};

std::vector<double> lengths(const StepEnds& ends) {
  std::vector<double> out;
  for (size_t i = 0; i + 1 < ends.boundaries.size(); ++i) {
    out.push_back(static_cast<double>(ends.boundaries[i + 1] - ends.boundaries[i]) / 1e6);
  }
  return out;
}

bool all_are(const std::vector<double>& values, double wanted) {
  return !values.empty() && std::all_of(values.begin(), values.end(),
                                        [wanted](double v) { return std::abs(v - wanted) < 0.01; });
}

}  // namespace

TEST_CASE("a step ends with the optimizer") {
  Program p;
  for (int i = 0; i < 20; ++i) {
    p.span(Stage::data, 5)
        .span(Stage::forward, 30)
        .span(Stage::backward, 50)
        .span(Stage::optimizer, 10)
        .gap(5);
  }
  const StepEnds ends = p.ends();
  CHECK(ends.source == StepSource::optimizer);
  CHECK(ends.confidence == model::Confidence::high);
  CHECK(ends.thread == 7);
  CHECK(lengths(ends).size() == 19);
  CHECK(all_are(lengths(ends), 100));
}

TEST_CASE("gradient accumulation makes one step of several batches") {
  Program p;
  for (int i = 0; i < 40; ++i) {
    p.span(Stage::data, 5).span(Stage::forward, 30).span(Stage::backward, 50);
    if (i % 4 == 3) {
      p.span(Stage::optimizer, 10);
    }
  }
  const StepEnds ends = p.ends();
  CHECK(ends.source == StepSource::optimizer);
  CHECK(all_are(lengths(ends), 350));
}

TEST_CASE("several optimizers make one step") {
  Program p;
  for (int i = 0; i < 20; ++i) {
    p.span(Stage::data, 5).span(Stage::forward, 30).span(Stage::backward, 50);
    p.span(Stage::optimizer, 10, 1).gap(1).span(Stage::optimizer, 4, 2);
  }
  CHECK(all_are(lengths(p.ends()), 100));
  CHECK(p.ends().confidence == model::Confidence::high);
}

TEST_CASE("optimizers that take turns make one step together") {
  Program p;
  for (int i = 0; i < 20; ++i) {
    p.span(Stage::data, 8).span(Stage::forward, 10).span(Stage::backward, 20).span(Stage::optimizer, 2, 1, 3);
    p.span(Stage::forward, 20).span(Stage::backward, 35).span(Stage::optimizer, 5, 2, 4);
  }
  const StepEnds ends = p.ends();
  CHECK(all_are(lengths(ends), 100));
  // The step ends before the next batch is loaded, which is behind the second optimizer.
  CHECK((ends.boundaries[0] - 1'000'000'000) % 100'000'000 == 0);
}

TEST_CASE("nested optimizer spans and evaluations are no steps of their own") {
  Program p;
  for (int i = 0; i < 12; ++i) {
    const int64_t begin = p.now;
    p.span(Stage::data, 10).span(Stage::forward, 40).span(Stage::backward, 40).span(Stage::optimizer, 10);
    model::Span inner = p.file().spans.back();
    inner.begin_ns += 1000;
    inner.duration_ns -= 2000;
    p.file().spans.insert(p.file().spans.end() - 1, inner);
    if (i % 4 == 1) {
      const int64_t from = p.now;
      p.span(Stage::data, 5).span(Stage::forward, 45);
      p.file().spans.push_back(
          {.begin_ns = from, .duration_ns = p.now - from, .stage = Stage::evaluation, .thread = 7});
    }
    CHECK(p.now > begin);
  }
  const auto found = lengths(p.ends());
  CHECK(found.size() == 11);
  CHECK(std::count_if(found.begin(), found.end(), [](double v) { return std::abs(v - 100) < 0.01; }) == 8);
  const RankSteps steps = steps_of(p.input, 100);
  int64_t evaluation = 0;
  for (const StepRecord& step : steps.steps) {
    evaluation += step.stage_ns[static_cast<size_t>(Stage::evaluation)];
    CHECK(step.stage_ns[static_cast<size_t>(Stage::forward)] == tests::ms(40));
    CHECK(step.stage_ns[static_cast<size_t>(Stage::optimizer)] == tests::ms(10));
  }
  CHECK(evaluation == 3 * tests::ms(50));
}

TEST_CASE("marks win") {
  Program p;
  for (int i = 0; i < 20; ++i) {
    p.span(Stage::data, 5).span(Stage::forward, 40).span(Stage::optimizer, 5);
    if (i % 2 == 1) {
      p.span(Stage::mark, 0);
    }
  }
  CHECK(p.ends().source == StepSource::mark);
  CHECK(all_are(lengths(p.ends()), 100));
}

TEST_CASE("without an optimizer the batches count") {
  Program p;
  for (int i = 0; i < 20; ++i) {
    p.span(Stage::data, 5).span(Stage::forward, 45);
  }
  const StepEnds ends = p.ends();
  CHECK(ends.source == StepSource::data);
  CHECK(ends.confidence == model::Confidence::medium);
  CHECK_FALSE(ends.why.empty());
  CHECK(all_are(lengths(ends), 50));
}

TEST_CASE("the sequence of collectives tells the step if nothing else does") {
  Program p;
  for (int i = 0; i < 30; ++i) {
    for (const uint64_t bytes : {100, 200, 200, 300}) {
      p.span(Stage::communication, 10, 5, 3, bytes).gap(2);
    }
    p.span(Stage::communication, 5, 6, 3, 100).gap(2);
    for (int waits = i % 3; waits > 0; --waits) {
      p.span(Stage::communication, 1);  // in Work.wait
      p.file().spans.back().group = 0;
    }
    p.now = 1'000'000'000 + tests::ms(60 * (i + 1));
  }
  const StepEnds ends = p.ends();
  CHECK(ends.source == StepSource::collectives);
  CHECK(all_are(lengths(ends), 60));
  // In the longest pause.
  CHECK((ends.boundaries[0] - 1'000'000'000) % 60'000'000 == 53'000'000);
}

TEST_CASE("one collective of a known line is a step") {
  for (const bool known : {true, false}) {
    CAPTURE(known);
    Program p;
    for (int i = 0; i < 40; ++i) {
      p.gap(30).span(Stage::communication, 10, 5, 3, 100);
      p.file().spans.back().place = known ? p.file().spans.back().place : 0;
    }
    const StepEnds ends = p.ends();
    CHECK(ends.source == (known ? StepSource::collectives : StepSource::none));
    CHECK((!known || all_are(lengths(ends), 40)));
  }
}

TEST_CASE("one collective of MPI that repeats is a step, whatever messages lie between") {
  Program p;
  p.file().names.insert(p.file().names.end(), {"MPI_Allreduce", "MPI_Send", "world 0>1"});
  std::mt19937 random(3);
  for (int i = 0; i < 30; ++i) {
    for (uint64_t messages = random() % 4; messages > 0; --messages) {
      p.span(Stage::communication, 1, 9);
      p.file().spans.back().group = 10;
    }
    p.now = 1'000'000'000 + tests::ms(20 * (i + 1) - 2);
    p.span(Stage::communication, 2, 8);
    p.file().spans.back().group = 7;
  }
  const StepEnds ends = p.ends();
  CHECK(ends.source == StepSource::collectives);
  CHECK(ends.boundaries.size() == 30);
  CHECK(all_are(lengths(ends), 20));
}

TEST_CASE("optimizers of a CUDA graph's loop have no passes between them") {
  Program p;
  for (int i = 0; i < 4; ++i) {
    p.span(Stage::backward, 10);  // while the graph is captured
  }
  for (int i = 0; i < 50; ++i) {
    p.gap(70).span(Stage::communication, 20, 5).span(Stage::optimizer, 10);
  }
  StepEnds ends = p.ends();
  CHECK(ends.source == StepSource::optimizer);
  CHECK(ends.boundaries.size() == 50);
  CHECK(all_are(lengths(ends), 100));
  // Two of them by turns are one step.
  Program two;
  for (int i = 0; i < 50; ++i) {
    two.gap(60).span(Stage::optimizer, 10).gap(20).span(Stage::optimizer, 10, 2, 4);
  }
  CHECK(all_are(lengths(two.ends()), 100));
}

TEST_CASE("calls of which only some were timed") {
  // A call every 10 ms; all of the second hundred are timed, else one in seven.
  const auto timed = [](wire::OpClass op_class, int communicator, uint64_t kinds,
                        const std::vector<model::SpanFile>& spans = {}) {
    RankRecord out;
    out.spans = spans;
    out.rank = 0;
    out.events.resize(1);
    model::EventFile& file = out.events[0];
    file.communicators = {{.slot = 0, .identity = 5, .rank = 0, .nranks = 2, .name = ""}};
    for (uint32_t i = 0; i < 400; ++i) {
      const auto op = static_cast<uint32_t>(i % kinds);
      file.ops[op].function = "call";
      file.ops[op].work = op;
      file.ops[op].key.op_class = static_cast<uint8_t>(op_class);
      file.ops[op].key.k = op_class == wire::OpClass::graph ? 77 : 0;
      if (i % 7 != 0 && (i < 100 || i >= 200)) {
        continue;
      }
      model::EventFile::Entry entry;
      entry.event.begin_ns = 2'000'000'000 + uint64_t{i} * 10'000'000;
      entry.event.duration_ns = 4'000'000;
      entry.event.op = op;
      entry.event.sequence = i;
      entry.communicator = communicator;
      file.events.push_back(entry);
    }
    return find_step_ends(join_spans(out), out);
  };
  const StepEnds collectives = timed(wire::OpClass::collective, 0, 4);
  CHECK(collectives.source == StepSource::collectives);
  CHECK(collectives.boundaries.size() == 100);
  CHECK(all_are(lengths(collectives), 40));
  CHECK(timed(wire::OpClass::collective, 0, 1).source == StepSource::none);
  // Some steps come before, while the graph is recorded.
  Program warm;
  for (int i = 0; i < 5; ++i) {
    warm.span(Stage::backward, 10).span(Stage::optimizer, 10);
  }
  const StepEnds replays = timed(wire::OpClass::graph, -1, 1, warm.input.spans);
  CHECK(replays.source == StepSource::replays);
  CHECK(replays.confidence == model::Confidence::medium);
  CHECK(replays.boundaries.size() == 400);
  CHECK(all_are(lengths(replays), 10));
}

TEST_CASE("no stable step") {
  Program p;
  CHECK(p.ends().source == StepSource::none);
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    p.span(Stage::communication, 10, 5, 3, 1 + random() % 50);
  }
  CHECK(p.ends().source == StepSource::none);
  CHECK_FALSE(p.ends().why.empty());
  CHECK(steps_of(p.input, 100).steps.empty());
  Program same;  // at places that are not known
  for (int i = 0; i < 100; ++i) {
    same.span(Stage::communication, 10, 5, 0, 64).gap(1);
  }
  CHECK(same.ends().source == StepSource::none);
}

TEST_CASE("a later clock shifts the boundaries and nothing else") {
  tests::MadeJob job{.ranks = 1, .steps = 30, .seed = 4};
  auto a = tests::make_ranks(job)[0];
  auto b = a;
  b.offset_ns = 123'456'789;
  const RankSteps x = steps_of(a, 100);
  const RankSteps y = steps_of(b, 100);
  REQUIRE(x.steps.size() == 29);
  REQUIRE(y.steps.size() == x.steps.size());
  for (size_t i = 0; i < x.steps.size(); ++i) {
    CHECK(y.steps[i].begin_ns == x.steps[i].begin_ns + b.offset_ns);
    CHECK(y.steps[i].stage_ns == x.steps[i].stage_ns);
    CHECK(y.steps[i].cpu_ns == x.steps[i].cpu_ns);
  }
}

TEST_CASE("nested spans are counted once, the stages of a step add up to its duration") {
  tests::MadeJob job{.ranks = 2, .steps = 50, .visible_calls = true, .seed = 9};
  job.change = [](int, int step, tests::StepParts& p) { p.garbage = step % 5 == 0 ? 12 : 0; };
  for (const RankRecord& rank : tests::make_ranks(job)) {
    const RankSteps steps = steps_of(rank, 1000);
    REQUIRE(steps.steps.size() == 49);
    CHECK(steps.cpu_known);
    for (size_t i = 0; i < steps.steps.size(); ++i) {
      const StepRecord& step = steps.steps[i];
      int64_t sum = 0;
      for (const int64_t part : step.stage_ns) {
        CHECK(part >= 0);
        sum += part;
      }
      CHECK(sum == step.duration_ns);
      CHECK(step.stage_ns[static_cast<size_t>(Stage::garbage)] == ((i + 1) % 5 == 0 ? tests::ms(12) : 0));
      const int64_t used = std::accumulate(step.cpu_ns.begin(), step.cpu_ns.end(), int64_t{0});
      CHECK(step.process_ns == doctest::Approx(used).epsilon(0.01));
    }
    CHECK(steps.places[static_cast<size_t>(Stage::data)] == "train.py:40 (main)");
    CHECK(steps.names[static_cast<size_t>(Stage::communication)] == "all_reduce");
    CHECK(steps.arrivals.size() == 50);
  }
}

TEST_CASE("spans that contradict themselves do no harm") {
  Program p;
  for (int i = 0; i < 20; ++i) {
    p.span(Stage::data, 5, 99, 99).span(Stage::forward, 40).span(Stage::optimizer, 5);
  }
  p.file().spans.push_back({.begin_ns = -5, .duration_ns = 10, .stage = Stage::optimizer, .thread = 7});
  p.file().spans.push_back({.begin_ns = 5, .duration_ns = -10, .stage = Stage::optimizer, .thread = 7});
  p.file().spans.push_back(
      {.begin_ns = INT64_MAX - 5, .duration_ns = INT64_MAX, .stage = Stage::optimizer, .thread = 7});
  // Overlaps, without being nested.
  p.file().spans.push_back(
      {.begin_ns = 1'003'000'000, .duration_ns = tests::ms(60), .cpu_ns = 5, .thread = 7});
  CHECK(all_are(lengths(p.ends()), 50));
  CHECK(steps_of(p.input, 10).steps.size() == 19);
}

TEST_CASE("a collective of few steps is part of no step") {
  // One or two collectives in each step; in each 50th step a broadcast more.
  for (const int calls : {1, 2}) {
    for (const int steps : {120, 400}) {
      Program p;
      p.span(Stage::communication, 1, 6, 4, 1);
      for (int i = 0; i < steps; ++i) {
        p.gap(70).span(Stage::communication, 10, 5, 3, 64);
        if (calls == 2) {
          p.gap(10).span(Stage::communication, 10, 5, 4, 32);
        }
        if (i % 50 == 49) {
          p.gap(70).span(Stage::communication, 5, 6, 4, 8);
        }
      }
      INFO(calls, " calls, ", steps, " steps");
      const StepEnds ends = p.ends();
      CHECK(ends.source == StepSource::collectives);
      CHECK(ends.boundaries.size() == static_cast<size_t>(steps));
      CHECK(median(lengths(ends)) == (calls == 1 ? 80 : 100));
    }
  }
  // Another call is repeated before the first step, and after the last one.
  Program framed;
  for (int i = 0; i < 320; ++i) {
    const bool inside = i >= 10 && i < 310;
    framed.gap(70).span(Stage::communication, 10, inside ? 5 : 6, inside ? 3 : 4, inside ? 64 : 8);
  }
  CHECK(framed.ends().boundaries.size() == 300);
  // Ten steps of eight calls between two broadcasts; a pause follows the eighth call only.
  Program solver;
  for (int i = 0; i < 400; ++i) {
    solver.gap(1)
        .span(Stage::communication, 1, 5, 3, static_cast<uint64_t>(64 + i % 8))
        .gap(i % 8 == 7 ? 30 : 1);
    if (i % 80 == 79) {
      solver.span(Stage::communication, 1, 6, 4, 8).gap(30);
    }
  }
  CHECK(solver.ends().boundaries.size() == 50);
  CHECK(median(lengths(solver.ends())) == 53);
  // A step of 40 layers: a pause follows the broadcast only.
  Program layers;
  for (int i = 0; i < 400; ++i) {
    layers.gap(2).span(Stage::communication, 1, 5, 3, 64);
    if (i % 40 == 39) {
      layers.gap(2).span(Stage::communication, 1, 6, 4, 8).gap(17);
    }
  }
  CHECK(layers.ends().boundaries.size() == 10);
  CHECK(all_are(lengths(layers.ends()), 140));
}

TEST_CASE("the position in a cycle") {
  CyclePosition one({1, 1, 2});
  std::vector<std::optional<size_t>> at;
  for (const uint64_t token : {1, 1, 2, 1, 9, 1, 2, /* too few */ 1, 2, 1, 1, 2, /* too many */ 1, 1, 1, 2}) {
    at.push_back(one.take(token));
  }
  const std::optional<size_t> none;
  CHECK(at == std::vector<std::optional<size_t>>{0, 1, 2, 0, none, 1, 2, 0, 2, 0, 1, 2, 0, 1, 1, 2});
}

TEST_CASE("periods of sequences") {
  const auto repeat = [](std::vector<uint64_t> one, size_t times) {
    std::vector<uint64_t> out;
    for (size_t i = 0; i < times; ++i) {
      out.insert(out.end(), one.begin(), one.end());
    }
    return out;
  };
  CHECK(find_period(repeat({1}, 10)).length == 1);
  CHECK(find_period(repeat({1, 2, 3}, 10)).length == 3);
  CHECK(find_period(repeat({1, 1, 2, 1, 1, 3}, 10)).length == 6);
  CHECK(find_period(repeat({1, 1, 2, 2}, 10)).length == 4);
  CHECK(find_period(repeat({1, 2, 3}, 2)).length == 0);
  CHECK(find_period({}).length == 0);
  std::vector<uint64_t> many(404);
  for (size_t i = 0; i < many.size(); ++i) {
    many[i] = i % 40 < 39 ? 5 : i;
  }
  CHECK(find_period(repeat(many, 5)).length == 404);
}
