// Checkpoints and evaluations are reported as pauses and never as a slowdown.
#include "report/speed/analysis.h"
#include "tests/support/rounds.h"
#include "tests/unit/report/speed/made_job.h"

#include <doctest/doctest.h>

#include <functional>
#include <random>

using namespace xpurun;
using namespace xpurun::report;
using model::Stage;
using tests::MadeJob;
using tests::StepParts;

namespace {

using Change = std::function<void(int rank, int step, StepParts&)>;

std::string all_of(const model::SpeedReport& report) {
  std::string out = report.sentence + "\n";
  for (const model::StagePause& pause : report.stage_pauses) {
    out += pause.sentence + "\n";
  }
  for (const model::SpeedFinding& f : report.findings) {
    out += f.sentence + "\n";
  }
  return out;
}

}  // namespace

TEST_CASE("pauses are told with length, distance and place, and are no finding") {
  struct Case {
    const char* name;
    int ranks;
    Change change;
    Stage stage;
    int64_t count;
    int64_t every;
    double median_s;
    model::RankSet where;
    const char* sentence;
  };
  const Case cases[] = {
      {"rank 0 writes", 4,
       [](int rank, int step, StepParts& p) { p.checkpoint = rank == 0 && step % 50 == 49 ? 3000 : 0; },
       Stage::checkpoint, 6, 50, 3.0, model::RankSet{0},
       "checkpoint of 3.00 s every 50 steps, in save at train.py:40 (main), 37 % of the time"},
      {"rank 1 of two writes", 2,
       [](int rank, int step, StepParts& p) { p.checkpoint = rank == 1 && step % 5 == 4 ? 300 : 0; },
       Stage::checkpoint, 60, 5, 0.3, model::RankSet{1},
       "checkpoint of 300 ms every 5 steps, in save at train.py:40 (main), 37 % of the time"},
      {"all write", 4, [](int, int step, StepParts& p) { p.checkpoint = step % 100 == 99 ? 1000 : 0; },
       Stage::checkpoint, 3, 100, 1.0, model::RankSet{0, 1, 2, 3},
       "checkpoint of 1.00 s every 100 steps, in save at train.py:40 (main), 9 % of the time"},
      {"one evaluation", 2, [](int, int step, StepParts& p) { p.evaluation = step == 150 ? 5000 : 0; },
       Stage::evaluation, 1, 0, 5.0, model::RankSet{0, 1},
       "evaluation of 5.00 s, once, in train.py:40 (main), 14 % of the time"},
      {"in every step", 2, [](int, int, StepParts& p) { p.checkpoint = 20; }, Stage::checkpoint, 299, 1, 0.02,
       model::RankSet{0, 1},
       "checkpoint of 20 ms in every step, in save at train.py:40 (main), 16 % of the time"},
  };
  for (const Case& one : cases) {
    for (const bool calls : {false, true}) {
      CAPTURE(one.name);
      CAPTURE(calls);
      MadeJob job{.ranks = one.ranks, .steps = 300, .visible_calls = calls, .seed = 21};
      job.change = one.change;
      const auto report = analyse_speed(tests::make_ranks(job));
      INFO(all_of(report));
      CHECK(report.findings.empty());
      CHECK(report.changes.empty());
      CHECK(report.spikes + report.pauses == 0);
      CHECK(report.step_s == doctest::Approx(0.104).epsilon(0.06));
      REQUIRE(report.stage_pauses.size() == 1);
      const model::StagePause& pause = report.stage_pauses[0];
      CHECK(pause.stage == one.stage);
      CHECK(std::abs(pause.count - one.count) <= 1);  // the first boundary is the end of the first step
      CHECK(pause.every == one.every);
      CHECK(pause.median_s == doctest::Approx(one.median_s).epsilon(0.02));
      CHECK(pause.ranks == one.where);
      CHECK(pause.slow.empty());
      CHECK(pause.sentence == one.sentence);
      CHECK(report.sentence.find("nothing is slow; " + pause.sentence) != std::string::npos);
    }
  }
}

TEST_CASE("checkpoints that begin in the middle of the run are no slowdown, and hide none") {
  MadeJob job{.ranks = 2, .steps = 400, .visible_calls = true, .seed = 22};
  job.change = [](int rank, int step, StepParts& p) {
    p.checkpoint = rank == 0 && step >= 200 && step % 3 == 0 ? 150 : 0;
  };
  const auto report = analyse_speed(tests::make_ranks(job));
  INFO(all_of(report));
  CHECK(report.findings.empty());
  CHECK(report.changes.empty());

  job.change = [](int rank, int step, StepParts& p) {
    p.checkpoint = rank == 0 && step % 20 == 0 ? 500 : 0;
    p.data += rank == 1 ? 25 : 0;
  };
  const auto slow = analyse_speed(tests::make_ranks(job));
  INFO(all_of(slow));
  REQUIRE(slow.findings.size() == 1);
  CHECK(slow.findings[0].cause == model::SlowCause::input);
  CHECK(slow.findings[0].ranks == model::RankSet{1});
  CHECK(slow.stage_pauses.size() == 1);
}

TEST_CASE("a rank that needs longer for its checkpoints is a note that names the place") {
  for (const int ranks : {2, 8}) {
    for (const bool evaluation : {false, true}) {
      MadeJob job{.ranks = ranks, .steps = 300, .visible_calls = true, .seed = 23};
      std::mt19937 random(5);
      std::normal_distribution<double> noise(0, 0.1);
      job.change = [&](int rank, int step, StepParts& p) {
        (evaluation ? p.evaluation : p.checkpoint) =
            step % 50 == 10 ? (rank == 1 ? 2000 : 500) * std::exp(noise(random)) : 0;
      };
      const auto report = analyse_speed(tests::make_ranks(job));
      INFO(all_of(report));
      REQUIRE(report.findings.size() == 1);
      const model::SpeedFinding& f = report.findings[0];
      CHECK(f.problem == model::SpeedProblem::cause);
      CHECK(f.severity == model::SpeedSeverity::note);
      CHECK(f.cause == (evaluation ? model::SlowCause::evaluation : model::SlowCause::checkpoint));
      CHECK(f.ranks == model::RankSet{1});
      CHECK(f.place == "train.py:40 (main)");
      CHECK(f.sentence.starts_with("rank 1 needs "));
      CHECK(f.sentence.find(evaluation ? "for an evaluation, the others" : "for a checkpoint, the others") !=
            std::string::npos);
      CHECK(f.share == doctest::Approx(0.2).epsilon(0.3));
      CHECK(report.stage_pauses.at(0).slow == model::RankSet{1});
      CHECK(report.sentence.find("nothing is slow") != std::string::npos);
    }
  }
}

TEST_CASE("ranks whose checkpoints are alike are never accused") {
  int accused = 0;
  for (uint32_t seed = 0; seed < tests::rounds(200); ++seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> noise(0, 0.1 + 0.4 * (seed % 3));
    MadeJob job{.ranks = 2 + static_cast<int>(seed % 7), .steps = 60, .seed = seed};
    const int every = 3 + static_cast<int>(seed % 15);
    job.change = [&](int, int step, StepParts& p) {
      p.checkpoint = step % every == 1 ? 200 * std::exp(noise(random)) : 0;
    };
    for (const model::StagePause& pause : analyse_speed(tests::make_ranks(job)).stage_pauses) {
      accused += pause.slow.empty() ? 0 : 1;
    }
  }
  CHECK(accused == 0);
}

TEST_CASE("short pauses are not told") {
  MadeJob job{.ranks = 2, .steps = 300, .seed = 24};
  job.change = [](int rank, int step, StepParts& p) { p.checkpoint = rank == 0 && step % 100 == 9 ? 8 : 0; };
  CHECK(analyse_speed(tests::make_ranks(job)).stage_pauses.empty());
}

TEST_CASE("what a program does beside the call that writes a checkpoint belongs to the pause") {
  MadeJob job{.ranks = 2, .steps = 400, .visible_calls = true, .seed = 5};
  job.change = [](int rank, int step, StepParts& p) {
    const bool saves = rank == 0 && step % 40 == 39;
    p.checkpoint = saves ? 60 : 0;
    p.between += saves ? 600 : 0;
  };
  const auto report = analyse_speed(tests::make_ranks(job));
  REQUIRE(report.stage_pauses.size() == 1);
  const model::StagePause& pause = report.stage_pauses[0];
  CHECK(pause.every == 40);
  CHECK(pause.median_s == doctest::Approx(0.66).epsilon(0.05));
  CHECK(pause.call_s == doctest::Approx(0.06).epsilon(0.05));
  CHECK_MESSAGE(pause.sentence.find(" every 40 steps, 60 ms of them in save at train.py:40 (main), ") !=
                    std::string::npos,
                all_of(report));
}
