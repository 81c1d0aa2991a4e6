// Who costs the others time, and why: made jobs with a known fault.
#include "report/speed/analysis.h"

#include "common/base/tr.h"
#include "report/speed/wording.h"
#include "tests/support/rounds.h"
#include "tests/unit/report/speed/made_job.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace xpurun;
using namespace xpurun::report;
using model::SlowCause;
using model::SpeedProblem;
using tests::MadeJob;
using tests::StepParts;

namespace {

model::SpeedReport analyse(const MadeJob& job) {
  return analyse_speed(tests::make_ranks(job));
}

std::vector<std::string> sentences(const model::SpeedReport& report) {
  std::vector<std::string> out;
  for (const auto& f : report.findings) {
    out.push_back(f.sentence);
  }
  return out;
}

std::string joined(const model::SpeedReport& report) {
  std::string out;
  for (const std::string& one : sentences(report)) {
    out += one + "\n";
  }
  return out;
}

}  // namespace

TEST_CASE("nothing is said when nothing is slow") {
  for (const bool calls : {false, true}) {
    for (const int ranks : {1, 2, 3, 8, 32}) {
      for (const double noise : {0.005, 0.03}) {
        const auto report = analyse({.ranks = ranks, .steps = 200, .visible_calls = calls, .noise = noise});
        CHECK_MESSAGE(report.findings.empty(), joined(report));
        CHECK(report.changes.empty());
        CHECK(report.steps == 199);
        CHECK(report.step_s > 0.09);
        CHECK(report.sentence.find("nothing is slow") != std::string::npos);
      }
    }
  }
}

TEST_CASE("a slow data loader of one rank") {
  for (const bool calls : {false, true}) {
    for (const int ranks : {2, 3, 8}) {
      MadeJob job{.ranks = ranks, .steps = 120, .visible_calls = calls, .seed = 3};
      job.change = [](int rank, int, StepParts& p) { p.data += rank == 1 ? 25 : 0; };
      const auto report = analyse(job);
      REQUIRE_MESSAGE(report.findings.size() == 1, joined(report));
      const model::SpeedFinding& f = report.findings[0];
      CHECK(f.problem == SpeedProblem::slow_rank);
      CHECK(f.cause == SlowCause::input);
      CHECK(f.ranks == model::RankSet{1});
      CHECK(f.lost_s == doctest::Approx(0.025).epsilon(0.15));
      CHECK(f.share == doctest::Approx(0.025 / 0.129).epsilon(0.15));
      CHECK(f.confidence == (calls ? model::Confidence::high : model::Confidence::medium));
      CHECK(f.place == "train.py:40 (main)");
      CHECK(f.sentence.starts_with("rank 1 (host a) costs "));
      CHECK(f.sentence.find("it waits longer for the next batch (train.py:40 (main)); the others wait in " +
                            std::string(calls ? "all_reduce" : "the backward pass")) != std::string::npos);
      CHECK(report.waits_measured == calls);
    }
  }
}

TEST_CASE("every fifth step of a rank alone is slow") {
  MadeJob job{.ranks = 1, .steps = 200, .seed = 3};
  job.change = [](int, int step, StepParts& p) { p.forward += step % 5 == 0 ? 160 : 0; };
  const auto report = analyse(job);
  REQUIRE_MESSAGE(report.findings.size() == 1, joined(report));
  const model::SpeedFinding& f = report.findings[0];
  CHECK(f.severity == model::SpeedSeverity::note);
  CHECK(f.problem == SpeedProblem::cause);
  CHECK(f.period == 5);
  CHECK(f.ranks.empty());
  CHECK(f.lost_s == doctest::Approx(0.032).epsilon(0.1));
  CHECK(f.sentence.starts_with("every 5th step takes "));
  CHECK(report.sentence.ends_with("; " + f.sentence));
  // A checkpoint is told as such, and steps of many lengths have no pattern.
  job.change = [](int, int step, StepParts& p) { p.checkpoint += step % 5 == 0 ? 160 : 0; };
  CHECK(analyse(job).findings.empty());
  CHECK_FALSE(analyse(job).stage_pauses.empty());
  job.change = [](int, int step, StepParts& p) { p.forward += (step * 7919) % 11 == 0 ? 160.0 : step % 3; };
  for (const model::SpeedFinding& other : analyse(job).findings) {
    CHECK(other.period == 11);
  }
}

TEST_CASE("a finding is told in the language of the page as well") {
  MadeJob job{.ranks = 3, .steps = 120, .visible_calls = true, .seed = 3};
  job.change = [](int rank, int, StepParts& p) { p.data += rank == 1 ? 25 : 0; };
  const auto report = analyse_speed(tests::make_ranks(job), {.language = base::Language::chinese});
  REQUIRE(report.findings.size() == 1);
  const model::SpeedFinding& f = report.findings[0];
  CHECK(f.sentence.starts_with("rank 1 (host "));
  CHECK(f.spoken.starts_with("rank 1（主机 "));
  CHECK(f.spoken.find("占每步的 ") != std::string::npos);
  CHECK(f.spoken.find("等待下一个批次的时间更长") != std::string::npos);
  CHECK(f.next.starts_with("give the data loader"));
  CHECK(analyse(job).findings[0].spoken == analyse(job).findings[0].sentence);
  const base::Speaking speaking(base::Language::chinese);
  CHECK(next_step(f).starts_with("给数据加载器"));
}

TEST_CASE("the order of the ranks and the clock of a host do not matter") {
  MadeJob job{.ranks = 6, .steps = 120, .ranks_per_host = 3, .visible_calls = true, .seed = 5};
  job.change = [](int rank, int, StepParts& p) { p.data += rank == 4 ? 30 : 0; };
  auto ranks = tests::make_ranks(job);
  const auto first = analyse_speed(ranks);
  REQUIRE(first.findings.size() == 1);
  std::reverse(ranks.begin(), ranks.end());
  CHECK(sentences(analyse_speed(ranks)) == sentences(first));
  for (RankRecord& rank : ranks) {
    rank.offset_ns += rank.host == "host1" ? 40'000'000 : 0;  // more than the fault itself
  }
  const auto shifted = analyse_speed(ranks);
  REQUIRE_MESSAGE(shifted.findings.size() == 1, joined(shifted));
  CHECK(shifted.findings[0].ranks == model::RankSet{4});
  CHECK(shifted.findings[0].lost_s == doctest::Approx(first.findings[0].lost_s).epsilon(0.05));
  for (RankRecord& rank : ranks) {
    rank.offset_ns += 1'000'000'000'000;
  }
  CHECK(sentences(analyse_speed(ranks)) == sentences(shifted));
}

TEST_CASE("causes of the host") {
  struct Case {
    SlowCause cause;
    void (*change)(StepParts&);
    const char* words;
  };
  const Case cases[] = {
      {SlowCause::gc, [](StepParts& p) { p.garbage = 20; }, "garbage collection"},
      {SlowCause::cpu_contention, [](StepParts& p) { p.delay = 20; }, "get no CPU"},
      {SlowCause::host_issue, [](StepParts& p) { p.forward += 20; }, "the forward pass"},
      {SlowCause::host_issue, [](StepParts& p) { p.between += 20; }, "its own code"},
      {SlowCause::host_issue, [](StepParts& p) { p.backward += 20; }, "the backward pass"},
  };
  for (const Case& one : cases) {
    for (const bool calls : {false, true}) {
      MadeJob job{.ranks = 4, .steps = 120, .visible_calls = calls, .seed = 6};
      job.change = [&one](int rank, int, StepParts& p) {
        if (rank == 3) {
          one.change(p);
        }
      };
      const auto report = analyse(job);
      REQUIRE_MESSAGE(report.findings.size() == 1, one.words << calls << joined(report));
      CHECK(report.findings[0].ranks == model::RankSet{3});
      CHECK_MESSAGE(report.findings[0].cause == one.cause, report.findings[0].sentence);
      CHECK_MESSAGE(report.findings[0].share == doctest::Approx(0.16).epsilon(0.2),
                    report.findings[0].sentence);
    }
  }
}

TEST_CASE("a GPU rank is told by the time before its work, with low confidence") {
  MadeJob job{.ranks = 4, .steps = 120, .cpu_times = false, .gpu = "yes", .seed = 8};
  job.change = [](int rank, int, StepParts& p) { p.data += rank == 2 ? 30 : 0; };
  const auto report = analyse(job);
  REQUIRE_MESSAGE(report.findings.size() == 1, joined(report));
  CHECK(report.findings[0].ranks == model::RankSet{2});
  CHECK(report.findings[0].cause == SlowCause::input);
  CHECK(report.findings[0].confidence == model::Confidence::low);
  CHECK(report.findings[0].sentence.find("(host a, GPU 2)") != std::string::npos);
}

TEST_CASE("one very long step hides no slow rank") {
  for (const bool calls : {false, true}) {
    const auto report = analyse({.ranks = 2,
                                 .steps = 200,
                                 .visible_calls = calls,
                                 .change = [](int rank, int step, StepParts& parts) {
                                   parts.data += rank == 1 && step >= 100 ? 40 : 0;
                                   parts.forward += rank == 1 && step == 101 ? 1500 : 0;  // it compiles
                                 }});
    REQUIRE(!report.findings.empty());
    const auto& first = report.findings.front();
    CHECK_MESSAGE(first.ranks == model::RankSet{1}, joined(report));
    CHECK(first.cause == SlowCause::input);
    CHECK(first.lost_s == doctest::Approx(0.040).epsilon(0.1));
  }
}

TEST_CASE("a host whose ranks are all slow is named as a host") {
  MadeJob job{.ranks = 32, .steps = 100, .ranks_per_host = 8, .visible_calls = true, .seed = 2};
  job.change = [](int rank, int, StepParts& p) { p.forward += rank / 8 == 2 ? 20 : 0; };
  const auto report = analyse(job);
  REQUIRE_MESSAGE(report.findings.size() == 1, joined(report));
  CHECK(report.findings[0].ranks == model::RankSet::range(16, 23));
  CHECK(report.findings[0].sentence.starts_with("host host2 (ranks 16-23) costs "));
}

TEST_CASE("since when, and which rank") {
  MadeJob job{.ranks = 4, .steps = 300, .visible_calls = true, .seed = 11};
  job.change = [](int rank, int step, StepParts& p) { p.data += rank == 3 && step >= 200 ? 25 : 0; };
  const auto report = analyse(job);
  REQUIRE_MESSAGE(report.changes.size() == 1, joined(report));
  // The first optimizer ends step 0 of the job, which has no begin.
  CHECK(std::abs(report.changes[0].step - 199) <= 1);
  REQUIRE_MESSAGE(report.findings.size() == 2, joined(report));
  for (const model::SpeedFinding& f : report.findings) {
    CHECK(f.ranks == model::RankSet{3});
    CHECK(f.cause == SlowCause::input);
    CHECK(f.since == report.changes[0].step);
  }
}

TEST_CASE("the change that made most of the difference counts, not an earlier small one") {
  MadeJob job{.ranks = 4, .steps = 400, .visible_calls = true, .seed = 12};
  job.change = [](int rank, int step, StepParts& p) {
    p.forward += step >= 80 ? 20 : 0;
    p.garbage += rank == 3 && step >= 250 ? 400 : 0;
  };
  const auto report = analyse(job);
  REQUIRE_MESSAGE(report.changes.size() == 2, joined(report));
  REQUIRE_MESSAGE(report.findings.size() == 2, joined(report));
  for (const model::SpeedFinding& f : report.findings) {
    CHECK(f.ranks == model::RankSet{3});
    CHECK(f.cause == SlowCause::gc);
    CHECK(std::abs(f.since - 249) <= 1);
  }
}

TEST_CASE("share, time and what-if of a finding are one number") {
  for (const int change_at : {0, 200}) {
    MadeJob job{.ranks = 4, .steps = 300, .visible_calls = true, .seed = 21};
    job.change = [change_at](int rank, int step, StepParts& p) {
      p.data += rank == 1 && step >= change_at ? 25 : 0;
    };
    const auto report = analyse(job);
    REQUIRE_MESSAGE(!report.findings.empty(), joined(report));
    for (const model::SpeedFinding& f : report.findings) {
      CHECK(f.lost_s == doctest::Approx(f.share * report.step_s));
      CHECK(f.share == doctest::Approx(0.19).epsilon(0.1));
    }
    if (change_at > 0) {
      REQUIRE(report.changes.size() == 1);
      CHECK(report.changes[0].after_s == report.step_s);
    }
    const model::SpeedFinding& f = report.findings[0];
    REQUIRE(f.problem == SpeedProblem::slow_rank);
    REQUIRE(report.what_if.size() >= 1);
    CHECK(report.what_if[0].cause == f.cause);
    CHECK(report.what_if[0].share == f.share);
    CHECK_MESSAGE(f.sentence.find("19 % of every step (24 ms)") != std::string::npos, f.sentence);
  }
}

TEST_CASE("a rank that becomes slow among noisy steps is told with its step") {
  for (uint32_t seed = 1; seed <= tests::rounds(10); ++seed) {
    for (const int at : {80, 115}) {
      MadeJob job{.ranks = 2, .steps = 160, .visible_calls = true, .seed = seed};
      std::mt19937 random(seed);
      std::student_t_distribution<double> tail(3);
      std::vector<double> load;
      for (int i = 0; i < job.steps; ++i) {
        load.push_back(std::exp(0.1 * std::clamp(tail(random), -5.0, 5.0)));
      }
      job.noise = 0.08;
      job.change = [&](int rank, int step, StepParts& p) {
        const double factor = load[static_cast<size_t>(step)];
        p.forward *= factor;
        p.backward *= factor;
        p.data += rank == 1 && step >= at ? 25 : 0;
      };
      const auto report = analyse(job);
      REQUIRE_MESSAGE(!report.findings.empty(), "seed " << seed);
      const model::SpeedFinding& f = report.findings[0];
      CHECK(f.problem == SpeedProblem::slow_rank);
      CHECK(f.ranks == model::RankSet{1});
      CHECK(f.cause == SlowCause::input);
      CHECK_MESSAGE(std::abs(f.since - (at - 1)) <= 6, "seed " << seed << " at " << at << ": " << f.sentence);
      CHECK_MESSAGE(f.share == doctest::Approx(0.18).epsilon(0.3), f.sentence);
      CHECK(f.lost_s == doctest::Approx(f.share * report.step_s));
    }
  }
}

TEST_CASE("the load of a shared machine is no finding") {
  for (uint32_t seed = 1; seed <= tests::rounds(20); ++seed) {
    for (const int ranks : {2, 4}) {
      MadeJob job{.ranks = ranks, .steps = 400, .visible_calls = seed % 2 == 0, .noise = 0.05, .seed = seed};
      // Of the machine, and of the CPU of each rank.
      const auto machine = tests::shared_machine(static_cast<size_t>(job.steps), seed);
      std::vector<std::vector<double>> own;
      for (int r = 0; r < ranks; ++r) {
        own.push_back(
            tests::shared_machine(static_cast<size_t>(job.steps), 100 * seed + static_cast<uint32_t>(r)));
      }
      job.change = [&](int rank, int step, StepParts& p) {
        const auto i = static_cast<size_t>(step);
        const double factor = machine[i] * std::sqrt(own[static_cast<size_t>(rank)][i]);
        for (double* part : {&p.data, &p.forward, &p.backward, &p.optimizer}) {
          *part *= factor;
        }
      };
      const auto report = analyse(job);
      CHECK_MESSAGE(report.findings.empty(), "seed " << seed << " ranks " << ranks << ": " << joined(report));
    }
  }
}

TEST_CASE("a slowdown of all ranks names none") {
  MadeJob job{.ranks = 8, .steps = 300, .seed = 12};
  job.change = [](int, int step, StepParts& p) { p.forward *= step >= 200 ? 1.7 : 1; };
  const auto report = analyse(job);
  REQUIRE_MESSAGE(report.findings.size() == 1, joined(report));
  const model::SpeedFinding& f = report.findings[0];
  CHECK(f.problem == SpeedProblem::slower);
  CHECK(f.ranks.empty());
  CHECK(f.sentence.find("all ranks alike; most of the additional time is in the forward pass") !=
        std::string::npos);
  job.change = [](int, int step, StepParts& p) { p.transfer += step >= 200 ? 20 : 0; };
  job.visible_calls = true;
  const auto network = analyse(job);
  REQUIRE_MESSAGE(network.findings.size() == 1, joined(network));
  CHECK(network.findings[0].cause == SlowCause::network);
}

TEST_CASE("garbage collection at different times on each rank costs everybody") {
  MadeJob job{.ranks = 8, .steps = 200, .seed = 13};
  job.change = [](int rank, int step, StepParts& p) { p.garbage = step % 8 == rank ? 15 : 0; };
  const auto report = analyse(job);
  REQUIRE_MESSAGE(report.findings.size() == 1, joined(report));
  CHECK(report.findings[0].problem == SpeedProblem::cause);
  CHECK(report.findings[0].cause == SlowCause::gc);
  CHECK(report.findings[0].ranks.empty());
  CHECK(report.findings[0].share == doctest::Approx(0.13).epsilon(0.2));
}

TEST_CASE("ranks that do not wait for each other: no cause takes more than a step") {
  std::vector<RankRecord> ranks;
  for (int r = 0; r < 2; ++r) {
    auto alone = tests::make_ranks(
        {.ranks = 1, .steps = 200, .change = [r](int, int, StepParts& p) { p.data = r == 0 ? 60 : 400; }});
    alone.front().rank = r;
    ranks.push_back(std::move(alone.front()));
  }
  const model::SpeedReport report = analyse_speed(ranks);
  for (const model::CauseShare& one : report.what_if) {
    CHECK(one.share <= 1);
  }
  for (const model::SpeedFinding& f : report.findings) {
    CHECK(f.share <= 1);
  }
}

TEST_CASE("a data loader whose cache fills in the first steps only costs nothing later") {
  MadeJob job{.ranks = 2, .steps = 400, .seed = 21};
  job.change = [](int, int step, StepParts& p) { p.data += step < 45 ? 160 : 0; };
  for (const model::SpeedFinding& f : analyse(job).findings) {
    CHECK_MESSAGE(f.cause != SlowCause::input, f.sentence);
  }
  job.change = [](int, int step, StepParts& p) { p.data += step % 4 == 0 ? 160 : 0; };
  const auto report = analyse(job);
  CHECK(std::any_of(report.findings.begin(), report.findings.end(),
                    [](const auto& f) { return f.cause == SlowCause::input; }));
}

TEST_CASE("slow checkpoints and alternating shapes are no alarm") {
  MadeJob checkpoints{.ranks = 4, .steps = 300, .seed = 14};
  checkpoints.change = [](int rank, int step, StepParts& p) {
    p.checkpoint = rank == 0 && step % 50 == 49 ? 3000 : 0;
  };
  CHECK_MESSAGE(analyse(checkpoints).findings.empty(), joined(analyse(checkpoints)));
  MadeJob shapes{.ranks = 4, .steps = 300, .seed = 15};
  shapes.change = [](int, int step, StepParts& p) {
    const double factor = step % 3 == 0 ? 1.5 : 1;
    p.forward *= factor;
    p.backward *= factor;
  };
  CHECK_MESSAGE(analyse(shapes).findings.empty(), joined(analyse(shapes)));
}

TEST_CASE("ranks whose files begin later or end earlier are matched by time") {
  MadeJob job{.ranks = 4, .steps = 200, .visible_calls = true, .seed = 16};
  job.change = [](int rank, int, StepParts& p) { p.data += rank == 1 ? 25 : 0; };
  auto ranks = tests::make_ranks(job);
  auto& spans = ranks[2].spans[0].spans;
  spans.erase(spans.begin(), spans.begin() + 5 * 30);
  ranks[3].spans[0].spans.resize(5 * 150);
  ranks.push_back({.rank = 4, .host = "a"});  // nothing is known of it
  const auto report = analyse_speed(ranks);
  CHECK(report.steps == 199);
  REQUIRE_MESSAGE(report.findings.size() == 1, joined(report));
  CHECK(report.findings[0].ranks == model::RankSet{1});
  REQUIRE(report.ranks.size() == 5);
  CHECK(report.ranks[4].steps == 0);
}

TEST_CASE("no data is no step") {
  const auto report = analyse_speed({});
  CHECK(report.source == model::StepSource::none);
  CHECK(report.sentence == "no stable step: no rank has spans or timed calls");
  CHECK(analyse_speed({RankRecord{.rank = 0}}).source == model::StepSource::none);
}

namespace {

struct GpuJob {
  int steps = 120;
  double slow_factor = 1.3;             // of the matmuls of rank 2
  std::function<bool(uint32_t)> timed;  // by the number of the collective, which is that of the step, from 1
  std::function<double(uint32_t)> ms;   // of the collective, after all ranks have arrived
};

// One matmul and one collective a step; all ranks leave the collective together.
std::vector<RankRecord> gpu_ranks(const GpuJob& job) {
  MadeJob made{.ranks = 4, .steps = job.steps, .gpu = "yes", .seed = 17};
  made.change = [&](int, int step, tests::StepParts& parts) {
    parts.transfer = job.ms ? job.ms(static_cast<uint32_t>(step) + 1) : parts.transfer;
  };
  auto ranks = tests::make_ranks(made);
  for (RankRecord& rank : ranks) {
    const double factor = rank.rank == 2 ? job.slow_factor : 1.0;
    model::EventFile file;
    auto& matmul = file.ops[1];
    matmul.key.op_class = static_cast<uint8_t>(wire::OpClass::matmul);
    matmul.key.m = 4096;
    matmul.function = "cublasGemmEx";
    auto& reduce = file.ops[2];
    reduce.key.op_class = static_cast<uint8_t>(wire::OpClass::collective);
    reduce.function = "ncclAllReduce";
    file.communicators.push_back({.slot = 0, .identity = 77, .rank = rank.rank, .nranks = 4});
    uint32_t step = 0;
    for (const model::Span& span : rank.spans[0].spans) {
      if (span.stage != model::Stage::backward) {
        continue;
      }
      const auto begin = static_cast<uint64_t>(span.begin_ns);
      const auto compute = static_cast<uint64_t>(40e6 * factor);
      const auto end = static_cast<uint64_t>((55 + (job.ms ? job.ms(step + 1) : 0)) * 1e6);
      file.events.push_back(
          {.event = {.begin_ns = begin, .duration_ns = compute, .op = 1, .sequence = step}});
      if (!job.timed || job.timed(step + 1)) {
        file.events.push_back({.event = {.begin_ns = begin + compute,
                                         .duration_ns = end - compute,
                                         .op = 2,
                                         .sequence = step + 1},
                               .communicator = 0});
      }
      ++step;
    }
    rank.events.push_back(std::move(file));
  }
  return ranks;
}

}  // namespace

TEST_CASE("a slow GPU is told from a slow host by the times of its matmuls") {
  const auto report = analyse_speed(gpu_ranks({}));
  REQUIRE_MESSAGE(report.findings.size() == 1, joined(report));
  CHECK(report.findings[0].ranks == model::RankSet{2});
  CHECK(report.findings[0].cause == SlowCause::gpu_compute);
  CHECK(report.findings[0].confidence == model::Confidence::high);
  CHECK(report.findings[0].sentence.find("the same matmuls take 30 % longer there") != std::string::npos);
}

TEST_CASE("a look at some steps is as good as all steps, samples of single collectives are not") {
  const double share = analyse_speed(gpu_ranks({})).findings.at(0).share;
  const auto sampled = [](uint32_t number) { return number % 16 == 0; };
  const auto look = [&](uint32_t number) { return sampled(number) || (number >= 70 && number < 86); };
  const auto seen = analyse_speed(gpu_ranks({.timed = look}));
  REQUIRE_MESSAGE(seen.findings.size() == 1, joined(seen));
  CHECK(seen.findings[0].ranks == model::RankSet{2});
  CHECK(seen.findings[0].cause == SlowCause::gpu_compute);
  CHECK(seen.findings[0].share == doctest::Approx(share).epsilon(0.15));
  CHECK(seen.why.empty());
  const auto unseen = analyse_speed(gpu_ranks({.timed = sampled}));
  CHECK_MESSAGE(unseen.findings.empty(), joined(unseen));
  CHECK(unseen.why.find("the ranks were not compared") != std::string::npos);
  REQUIRE(unseen.ranks.size() == 4);
  CHECK(unseen.ranks[0].own_s == -1);
  CHECK(unseen.ranks[0].wait_s == -1);
}

TEST_CASE("garbage collection names its rank without timed collectives") {
  auto ranks = gpu_ranks({.slow_factor = 1, .timed = [](uint32_t number) { return number % 16 == 0; }});
  const auto healthy = analyse_speed(ranks);
  CHECK_MESSAGE(healthy.findings.empty(), joined(healthy));
  MadeJob made{.ranks = 4, .steps = 120, .gpu = "yes", .seed = 17};
  made.change = [](int rank, int, StepParts& p) { p.garbage += rank == 3 ? 80 : 0; };
  auto slow = tests::make_ranks(made);
  for (size_t r = 0; r < slow.size(); ++r) {
    slow[r].events = ranks[r].events;
  }
  const auto report = analyse_speed(slow);
  REQUIRE_MESSAGE(report.findings.size() == 1, joined(report));
  CHECK(report.findings[0].ranks == model::RankSet{3});
  CHECK(report.findings[0].cause == SlowCause::gc);
  CHECK(report.findings[0].confidence == model::Confidence::low);
}

TEST_CASE("a communicator that is used now and then makes no step unknown") {
  auto ranks = gpu_ranks({});
  for (RankRecord& rank : ranks) {
    rank.events[0].communicators.push_back({.slot = 1, .identity = 78, .rank = rank.rank, .nranks = 4});
    const auto begin = rank.events[0].events.back().event.begin_ns;
    rank.events[0].events.push_back(
        {.event = {.begin_ns = begin, .duration_ns = 1000, .op = 2, .sequence = 3}, .communicator = 1});
  }
  const auto report = analyse_speed(ranks);
  REQUIRE_MESSAGE(report.findings.size() == 1, joined(report));
  CHECK(report.findings[0].ranks == model::RankSet{2});
}

TEST_CASE("collectives that take longer are the network") {
  const auto ms = [](uint32_t number) { return number > 100 ? 40.0 : 5.0; };
  const auto looks = [](uint32_t number) {
    return (number > 40 && number <= 60) || (number > 140 && number <= 160);
  };
  const auto report = analyse_speed(gpu_ranks({.steps = 200, .slow_factor = 1, .timed = looks, .ms = ms}));
  REQUIRE_MESSAGE(report.findings.size() == 1, joined(report));
  CHECK(report.findings[0].problem == SpeedProblem::slower);
  CHECK(report.findings[0].cause == SlowCause::network);
  CHECK(report.findings[0].ranks.empty());
  CHECK(report.findings[0].sentence.find("all ranks alike") != std::string::npos);
  // Without the looks nothing is said of ranks.
  const auto blind = analyse_speed(gpu_ranks(
      {.steps = 200, .slow_factor = 1, .timed = [](uint32_t number) { return number % 16 == 0; }, .ms = ms}));
  REQUIRE_MESSAGE(blind.findings.size() == 1, joined(blind));
  CHECK(blind.findings[0].cause == SlowCause::unknown);
  CHECK(blind.findings[0].sentence.find("all ranks alike") == std::string::npos);
}

TEST_CASE("a dozen steps on CPUs make no warning about a rank") {
  for (const int steps : {12, 60}) {
    MadeJob job{.ranks = 4, .steps = steps, .visible_calls = true, .seed = 3};
    job.change = [](int rank, int, StepParts& p) { p.forward *= rank == 2 ? 1.6 : 1; };
    const auto report = analyse(job);
    REQUIRE(!report.findings.empty());
    CHECK(report.findings[0].ranks == model::RankSet{2});
    CHECK((report.findings[0].severity == model::SpeedSeverity::warning) == (steps == 60));
  }
}
