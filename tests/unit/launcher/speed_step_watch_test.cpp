// The steps of a job while it runs: counted per rank, and reported once when they become slower.
#include "launcher/speed/step_watch.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

using namespace xpurun;
using namespace xpurun::launcher;
using model::Span;
using model::Stage;

namespace {

constexpr int64_t kMs = 1'000'000;

// A rank whose steps consist of a forward pass, a backward pass and the optimizer.
struct StepWatchScene {
  std::vector<model::StepChange> told;
  std::vector<base::MonoNs> begins;
  std::vector<model::StepChange> as_fast;
  int longer = 0;
  double longer_by = 0;
  StepWatch watch{
      0.2,
      [this](const model::StepChange& change, base::MonoNs begin) {
        told.push_back(change);
        begins.push_back(begin);
      },
      [this](const model::StepChange& change, base::MonoNs /*begin*/) { as_fast.push_back(change); },
      [this](double share) {
        ++longer;
        longer_by = share;
      }};
  std::mt19937 random{7};
  std::normal_distribution<double> noise{0, 0.02};
  base::MonoNs now = 1000 * kMs;

  static Span span(Stage stage, base::MonoNs begin, int64_t duration) {
    return {.begin_ns = begin, .duration_ns = duration, .stage = stage, .thread = 5};
  }
  // All of `ranks` make the same steps of about `step_ms`.
  void steps(int count, double step_ms, const std::vector<base::Rank>& ranks = {0}, uint64_t process = 1,
             int64_t checkpoint_every = 0) {
    for (int i = 0; i < count; ++i) {
      const auto third = static_cast<int64_t>(step_ms * 1e6 * std::exp(noise(random)) / 3);
      std::vector<Span> spans;
      if (checkpoint_every > 0 && i % checkpoint_every == 0) {
        spans.push_back(span(Stage::checkpoint, now, 2000 * kMs));
        now += 2000 * kMs;
      }
      for (const Stage stage : {Stage::forward, Stage::backward, Stage::optimizer}) {
        spans.push_back(span(stage, now, third));
        now += third;
      }
      spans.push_back(span(Stage::optimizer, now, kMs / 100));  // a second optimizer
      for (const base::Rank rank : ranks) {
        watch.add(rank, process, spans);
      }
    }
  }
};

}  // namespace

TEST_CASE("step watch: the passes of most steps are replays of a CUDA graph") {
  StepWatchScene s;
  std::vector<Span> spans;
  for (int i = 0; i < 304; ++i) {
    spans.push_back(s.span(i < 4 ? Stage::backward : Stage::optimizer, s.now, 20 * kMs));
    s.now += (i < 200 ? 100 : 150) * kMs;
  }
  s.watch.add(0, 1, spans);
  CHECK(s.watch.rank(0).steps > 250);
  CHECK(s.told.size() == 1);
}

TEST_CASE("step watch: a slowdown is told once, with its step") {
  for (const bool gpu : {false, true}) {
    StepWatchScene s;
    if (gpu) {
      s.watch.gpu_used();
    }
    s.steps(201, 100, {0, 1});
    const base::MonoNs slow_since = s.now;
    CHECK(s.told.empty());
    s.steps(gpu ? 25 : 60, 130, {0, 1});
    CHECK(s.longer == 0);
    REQUIRE(s.told.size() == 1);
    CHECK(std::abs(s.told[0].step - 200) <= 2);
    CHECK(std::abs(s.begins[0] - slow_since) < 300 * kMs);
    CHECK(s.told[0].share == doctest::Approx(0.3).epsilon(0.1));
    CHECK(s.told[0].before_s == doctest::Approx(0.1).epsilon(0.05));
    CHECK(s.watch.slow_events() == 1);
    s.steps(500, 130, {0, 1});
    CHECK(s.told.size() == 1);
    // As fast as before, then slow again.
    CHECK(s.as_fast.empty());
    const auto slow_until = static_cast<int64_t>(s.watch.rank(0).steps);
    s.steps(300, 100, {0, 1});
    CHECK(s.told.size() == 1);
    REQUIRE(s.as_fast.size() == 1);
    CHECK(std::abs(s.as_fast[0].step - slow_until) <= 2);
    s.steps(100, 150, {0, 1});
    REQUIRE(s.told.size() == 2);
    CHECK(s.told[1].share == doctest::Approx(0.5).epsilon(0.1));
  }
}

TEST_CASE("step watch: small changes, checkpoints and long pauses are not told") {
  StepWatchScene s;
  s.steps(200, 100);
  s.steps(200, 112);
  CHECK(s.longer == 1);
  CHECK(s.longer_by == doctest::Approx(0.12).epsilon(0.1));
  s.steps(300, 112, {0}, 1, 40);
  s.now += 3'600'000 * kMs;
  s.steps(200, 112);
  // A job that was not reported as slower is not reported as recovered.
  s.steps(200, 100);
  CHECK(s.told.empty());
  CHECK(s.as_fast.empty());
  CHECK(s.watch.rank(0).steps == 1099);
  CHECK(s.watch.rank(0).step_s == doctest::Approx(0.1).epsilon(0.05));
}

TEST_CASE("step watch: two changes that are slow together are told with the level before both") {
  StepWatchScene s;
  s.steps(200, 100);
  s.steps(200, 113);
  CHECK(s.told.empty());
  s.steps(200, 128);
  REQUIRE(s.told.size() == 1);
  CHECK(s.told[0].before_s == doctest::Approx(0.1).epsilon(0.03));
  CHECK(s.told[0].share == doctest::Approx(0.28).epsilon(0.1));
}

TEST_CASE("step watch: a threshold of 0 only counts") {
  StepWatchScene s;
  s.watch = StepWatch(0, [](const model::StepChange&, base::MonoNs) { FAIL("told"); });
  s.steps(200, 100);
  s.steps(200, 300);
  CHECK(s.watch.rank(0).steps == 399);
  CHECK(s.watch.rank(0).step_s == doctest::Approx(0.3).epsilon(0.05));
  CHECK(s.watch.rank(1).steps == 0);
  CHECK(s.watch.rank(1).step_s < 0);
}

TEST_CASE("step watch: the gap of a restarted process is no step, and counts go on") {
  StepWatchScene s;
  s.steps(100, 100);
  s.now += 60'000 * kMs;
  s.steps(100, 100, {0}, 2);
  CHECK(s.watch.rank(0).steps == 198);
  CHECK(s.watch.rank(0).step_s == doctest::Approx(0.1).epsilon(0.05));
  CHECK(s.told.empty());
}

TEST_CASE("step watch: another rank takes the place of one that makes no more steps") {
  StepWatchScene s;
  s.steps(100, 100, {0, 1});
  s.steps(300, 100, {1});
  s.steps(100, 150, {1});
  REQUIRE(s.told.size() == 1);
  CHECK(std::abs(s.told[0].step - 399) <= 2);
}

TEST_CASE("step watch: marks count instead of optimizers, and very short steps are summed up") {
  StepWatchScene s;
  const auto run = [&s](int count, int64_t step) {
    std::vector<Span> spans;
    for (int i = 0; i < count; ++i) {
      spans.push_back(StepWatchScene::span(Stage::optimizer, s.now + step / 2, step / 4));
      s.now += step;
      spans.push_back(StepWatchScene::span(Stage::mark, s.now, 0));
    }
    s.watch.add(0, 1, spans);
  };
  run(20'001, kMs / 10);
  CHECK(s.watch.rank(0).steps == 20'000);
  run(10'000, kMs / 5);
  REQUIRE(s.told.size() == 1);
  CHECK(s.told[0].share == doctest::Approx(1).epsilon(0.05));
  CHECK(std::abs(s.told[0].step - 20'000) <= 200);
}

TEST_CASE("step watch: an error ends the watch only") {
  StepWatchScene s;
  s.watch = StepWatch(0.2, [](const model::StepChange&, base::MonoNs) { throw std::runtime_error("x"); });
  s.steps(200, 100);
  s.steps(100, 200);
  const uint64_t counted = s.watch.rank(0).steps;
  s.steps(10, 200);
  CHECK(s.watch.rank(0).steps == counted);
}

TEST_CASE("step watch: what a trace costs is no slowdown of the job") {
  StepWatchScene s;
  s.watch.gpu_used();
  s.steps(200, 100);
  s.watch.every_call_timed(true, s.now);
  s.steps(40, 140);
  s.watch.every_call_timed(false, s.now);
  s.steps(100, 100);
  CHECK(s.told.empty());
  CHECK(s.watch.rank(0).steps == 339);
  s.steps(40, 140);  // without a trace it is one
  CHECK(s.told.size() == 1);
}

namespace {

// A rank that shows neither an optimizer nor marks.
struct UnmarkedScene {
  StepWatchScene s;

  void add(std::vector<Span> spans) { s.watch.add(0, 1, spans); }
  Span after(Stage stage, double ms, uint32_t name = 0) {
    Span out = StepWatchScene::span(stage, s.now, static_cast<int64_t>(ms * 1e6));
    out.name = name;
    out.group = stage == Stage::communication ? 9 : 0;
    s.now += out.duration_ns;
    return out;
  }
  void batches(int count, double step_ms) {
    for (int i = 0; i < count; ++i) {
      add({after(Stage::data, 0.1 * step_ms, 1), after(Stage::backward, 0.9 * step_ms)});
    }
  }
  // Three collectives of a step, the second one of another kind.
  void collectives(int count, double step_ms) {
    for (int i = 0; i < count; ++i) {
      for (const uint32_t name : {1U, 2U, 1U}) {
        s.now += static_cast<int64_t>(0.01 * step_ms * 1e6);
        add({after(Stage::communication, 0.1 * step_ms, name)});
        if (i % 3 == 0) {  // a wait for calls that have returned
          add({StepWatchScene::span(Stage::communication, s.now, kMs)});
        }
      }
      s.now += static_cast<int64_t>(0.67 * step_ms * 1e6);
    }
  }
};

}  // namespace

TEST_CASE("step watch: without an optimizer, batches tell the steps and a slowdown") {
  UnmarkedScene u;
  u.batches(250, 100);
  CHECK(u.s.watch.rank(0).steps > 200);
  CHECK(u.s.watch.rank(0).step_s == doctest::Approx(0.1));
  u.batches(100, 130);
  REQUIRE(u.s.told.size() == 1);
  CHECK(u.s.told[0].share == doctest::Approx(0.3).epsilon(0.05));
}

TEST_CASE("step watch: without batches, collectives that repeat themselves tell the steps") {
  UnmarkedScene u;
  u.collectives(250, 100);
  CHECK(u.s.watch.rank(0).steps > 200);
  CHECK(u.s.watch.rank(0).step_s == doctest::Approx(0.1));
  u.collectives(100, 130);
  REQUIRE(u.s.told.size() == 1);
  CHECK(u.s.told[0].share == doctest::Approx(0.3).epsilon(0.05));
}

TEST_CASE("step watch: a sequence of collectives that changes is learnt again") {
  UnmarkedScene u;
  u.collectives(100, 100);
  for (int i = 0; i < 200; ++i) {
    for (const uint32_t name : {7U, 8U}) {
      u.add({u.after(Stage::communication, 10, name)});
    }
    u.s.now += 80 * kMs;
  }
  CHECK(u.s.watch.rank(0).step_s == doctest::Approx(0.1));
  const auto before = u.s.watch.rank(0).steps;
  for (int i = 0; i < 10; ++i) {
    for (const uint32_t name : {7U, 8U}) {
      u.add({u.after(Stage::communication, 10, name)});
    }
    u.s.now += 80 * kMs;
  }
  CHECK(u.s.watch.rank(0).steps == before + 10);
}

TEST_CASE("step watch: one collective of a known line that repeats is a step") {
  UnmarkedScene u;
  const auto loop = [&](int count, double step_ms) {
    for (int i = 0; i < count; ++i) {
      u.s.now += static_cast<int64_t>(0.9 * step_ms * 1e6);
      Span call = u.after(Stage::communication, 0.1 * step_ms, 1);
      call.place = 5;
      u.add({call});
    }
  };
  loop(300, 50);
  CHECK(u.s.watch.rank(0).steps > 200);
  CHECK(u.s.watch.rank(0).step_s == doctest::Approx(0.05));
  loop(150, 75);
  REQUIRE(u.s.told.size() == 1);
  CHECK(u.s.told[0].share == doctest::Approx(0.5).epsilon(0.05));
}

TEST_CASE("step watch: no steps rather than wrong ones") {
  UnmarkedScene irregular;
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    irregular.add({irregular.after(Stage::communication, 1, 1 + random() % 5)});
  }
  CHECK(irregular.s.watch.rank(0).steps == 0);
  UnmarkedScene alike;
  for (int i = 0; i < 2000; ++i) {
    alike.add({alike.after(Stage::communication, 1, 1)});
  }
  CHECK(alike.s.watch.rank(0).steps == 0);
  // Batches with another number of passes each time.
  UnmarkedScene batches;
  for (int i = 0; i < 500; ++i) {
    batches.add({batches.after(Stage::data, 1, 1)});
    for (uint32_t k = random() % 8; k > 0; --k) {
      batches.add({batches.after(Stage::backward, 5)});
    }
  }
  CHECK(batches.s.watch.rank(0).steps == 0);
}

TEST_CASE("step watch: an optimizer that is seen late takes the place of what was inferred") {
  UnmarkedScene u;
  u.batches(100, 100);
  CHECK(u.s.watch.rank(0).steps > 50);
  // Four batches make one step.
  for (int i = 0; i < 50; ++i) {
    u.batches(4, 100);
    u.add({u.after(Stage::optimizer, 10)});
  }
  CHECK(u.s.watch.rank(0).steps == 49);
  CHECK(u.s.watch.rank(0).step_s == doctest::Approx(0.41));
}

// The host of a GPU that reads its loss every tenth step: nine steps of 3 ms, and one that waits for the
// rest.
TEST_CASE("step watch: a host that runs ahead of its GPU") {
  StepWatchScene s;
  s.watch.gpu_used();
  double gpu_ms = 1000;
  double host_ms = 1000;
  for (int i = 0; i < 400; ++i) {
    const double step_ms = i < 200 ? 30 : 40;
    const auto begin = static_cast<base::MonoNs>(host_ms * 1e6);
    s.watch.add(0, 1,
                std::vector<Span>{StepWatchScene::span(Stage::forward, begin, kMs),
                                  StepWatchScene::span(Stage::backward, begin + kMs, kMs),
                                  StepWatchScene::span(Stage::optimizer, begin + 2 * kMs, kMs)});
    gpu_ms = std::max(gpu_ms, host_ms);
    const report::GpuStart first{.called_ns = begin + kMs,
                                 .begin_ns = static_cast<int64_t>((gpu_ms + step_ms / 2) * 1e6),
                                 .kind = 7,
                                 .collective = true,
                                 .first_of_step = true};
    s.watch.started(0, std::vector{first});
    gpu_ms += step_ms;
    host_ms += 3;
    host_ms = i % 10 == 9 ? std::max(host_ms, gpu_ms) : host_ms;
  }
  CHECK(s.watch.rank(0).steps == 399);
  CHECK(s.watch.step_s() == doctest::Approx(0.040).epsilon(0.02));
  REQUIRE(s.told.size() == 1);
  CHECK(std::abs(s.told[0].step - 200) <= 2);
  CHECK(s.told[0].before_s == doctest::Approx(0.030).epsilon(0.02));
  CHECK(s.told[0].found_step - s.told[0].step <= 20);
}

namespace {

// Steps of a program without spans, such as one of JAX: 9 collectives each, of which the first is timed in
// one step of `every`.
void train_without_spans(StepWatchScene& s, int from, int to, int64_t step_ms, int every, base::MonoNs& now) {
  for (int i = from; i < to; ++i) {
    if (i % every == 0) {
      const report::GpuStart first{.called_ns = now,
                                   .begin_ns = now + kMs,
                                   .kind = 7,
                                   .collective = true,
                                   .first_of_step = true,
                                   .number = static_cast<uint64_t>(9 * i + 9)};
      s.watch.started(0, std::vector{first});
    }
    now += step_ms * kMs;
  }
}

}  // namespace

TEST_CASE("step watch: the first collectives of steps without spans") {
  StepWatchScene s;
  s.watch.gpu_used();
  base::MonoNs now = 1000 * kMs;
  train_without_spans(s, 0, 60, 12, 1, now);
  CHECK(s.watch.rank(0).steps == 59);
  // Short steps: the first collective of every third is timed.
  train_without_spans(s, 60, 240, 12, 3, now);
  CHECK(s.watch.rank(0).steps == 237);
  CHECK(s.watch.step_s() == doctest::Approx(0.012).epsilon(0.02));
  CHECK(s.told.empty());
  train_without_spans(s, 240, 300, 30, 1, now);
  REQUIRE(s.told.size() == 1);
  CHECK(std::abs(s.told[0].step - 240) <= 4);
  CHECK(s.told[0].before_s == doctest::Approx(0.012).epsilon(0.02));
  // The program begins to mark its steps.
  s.watch.add(0, 1, std::vector<Span>{StepWatchScene::span(Stage::mark, now, 0)});
  CHECK(s.watch.rank(0).steps == 0);
}
