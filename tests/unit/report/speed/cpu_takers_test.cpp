// Who takes the CPU from ranks: other threads, the limit of a container, the hypervisor.
#include "common/base/tr.h"
#include "report/speed/analysis.h"
#include "tests/unit/report/speed/made_job.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace xpurun;
using namespace xpurun::report;
using model::SlowCause;
using model::SpeedProblem;
using tests::MadeJob;
using tests::StepParts;

namespace {

struct TakerCase {
  double delay = 0;
  double throttled = 0;
  double stolen = 0;
  const char* words = "";
};

constexpr TakerCase kTakers[] = {
    {.delay = 40, .words = "it is ready to run and gets no CPU"},
    {.delay = 40, .throttled = 10, .words = "it is ready to run and gets no CPU"},
    {.delay = 40, .throttled = 38, .words = "the container's CPU limit throttled it 27 % of the time"},
    // The kernel of some hosts does not count delays of throttled threads.
    {.throttled = 40, .words = "the container's CPU limit throttled it 28 % of the time"},
    {.stolen = 40, .words = "the hypervisor took 28 % of its CPU time"},
    {.delay = 5, .throttled = 5, .stolen = 35, .words = "the hypervisor took 25 % of its CPU time"},
};

void take(const TakerCase& one, StepParts& p) {
  p.delay += std::max(one.delay, one.throttled);
  p.throttled += one.throttled;
  p.stolen += one.stolen;
}

}  // namespace

TEST_CASE("the sentence about a rank without a CPU names who takes it") {
  for (const TakerCase& one : kTakers) {
    for (const bool calls : {false, true}) {
      CAPTURE(one.words);
      CAPTURE(calls);
      MadeJob job{
          .ranks = 4, .steps = 120, .visible_calls = calls, .takers_known = true, .noise = 0.005, .seed = 6};
      job.change = [&one](int rank, int, StepParts& p) {
        if (rank == 2) {
          take(one, p);
        }
      };
      auto ranks = tests::make_ranks(job);
      if (one.delay == 0) {
        for (auto& load : ranks[2].spans[0].loads) {
          load.run_delay_ns = -1;
        }
      }
      const auto report = analyse_speed(ranks);
      REQUIRE(report.findings.size() == 1);
      const model::SpeedFinding& f = report.findings[0];
      CHECK(f.problem == SpeedProblem::slow_rank);
      CHECK(f.cause == SlowCause::cpu_contention);
      CHECK(f.ranks == model::RankSet{2});
      CHECK_MESSAGE(f.sentence.find(one.words) != std::string::npos, f.sentence);
      CHECK(report.ranks[2].throttled_s == doctest::Approx(one.throttled * 1e-3).epsilon(0.02));
      CHECK(report.ranks[2].stolen_s == doctest::Approx(one.stolen * 1e-3).epsilon(0.02));
    }
  }
}

TEST_CASE("a rank that has more to do on a loaded machine lacks the CPU longer, which is no cause") {
  for (const bool more_work : {false, true}) {
    CAPTURE(more_work);
    MadeJob job{.ranks = 3, .steps = 120, .noise = 0.005, .seed = 6};
    job.change = [more_work](int rank, int, StepParts& p) {
      p.forward += rank == 1 && more_work ? 30 : 0;
      p.delay = rank == 1 ? 360 : 270;
    };
    const auto report = analyse_speed(tests::make_ranks(job));
    REQUIRE(report.findings.size() == 1);
    CHECK(report.findings[0].ranks == model::RankSet{1});
    // All ranks lack the CPU.
    CHECK((report.findings[0].severity == model::SpeedSeverity::warning) == more_work);
    CHECK(report.findings[0].cause == (more_work ? SlowCause::host_issue : SlowCause::cpu_contention));
  }
}

TEST_CASE("a slow rank of a job whose single steps last very long on a loaded machine") {
  for (const double more : {0.0, 90.0}) {
    for (uint32_t seed = 1; seed <= 10; ++seed) {
      CAPTURE(more);
      CAPTURE(seed);
      std::mt19937 random(seed);
      std::exponential_distribution<double> load(1);
      MadeJob job{.ranks = 2, .steps = 160, .noise = 0.1, .seed = seed};
      job.change = [&](int rank, int, StepParts& p) {
        const double wait = load(random);
        p.delay = 4 * wait * wait * wait;  // 1 ms in the median, now and then half a second
        p.forward += rank == 1 ? more : 0;
      };
      const auto report = analyse_speed(tests::make_ranks(job));
      const bool named = std::any_of(report.findings.begin(), report.findings.end(), [](const auto& f) {
        return f.problem == SpeedProblem::slow_rank && f.ranks == model::RankSet{1} &&
               f.severity == model::SpeedSeverity::warning;
      });
      CHECK(named == (more > 0));
    }
  }
}

TEST_CASE("the hypervisor takes nothing from ranks that sleep") {
  for (const bool sleeps : {false, true}) {
    MadeJob job{.ranks = 2, .steps = 120, .takers_known = true, .noise = 0.005, .seed = 8};
    const double length = sleeps ? 200 : 0;
    job.change = [&](int, int, StepParts& p) {
      p.between += length;  // without a CPU
      p.stolen = 12;
    };
    auto ranks = tests::make_ranks(job);
    for (auto& rank : ranks) {
      for (size_t i = 0; i < rank.spans[0].loads.size(); ++i) {
        auto& load = rank.spans[0].loads[i];
        load.stolen_ns = (load.at_ns - rank.spans[0].loads[0].at_ns) / 10;  // of a thread that never sleeps
      }
    }
    const auto report = analyse_speed(ranks);
    const bool said = std::any_of(report.findings.begin(), report.findings.end(),
                                  [](const auto& f) { return f.cause == SlowCause::cpu_contention; });
    CHECK(said != sleeps);
  }
}

TEST_CASE("a limit that throttles all ranks is reported, and no rank is named") {
  for (const double part : {2.0, 30.0}) {
    for (const bool limit : {false, true}) {
      MadeJob job{.ranks = 4, .steps = 120, .takers_known = true, .noise = 0.005, .seed = 7};
      job.change = [&](int, int, StepParts& p) {
        take({.throttled = limit ? part : 0, .stolen = limit ? 0 : part}, p);
      };
      const auto report = analyse_speed(tests::make_ranks(job));
      if (part < 5) {
        CHECK(report.findings.empty());
        continue;
      }
      REQUIRE(report.findings.size() == 1);
      const model::SpeedFinding& f = report.findings[0];
      CHECK(f.problem == SpeedProblem::cause);
      CHECK(f.cause == SlowCause::cpu_contention);
      CHECK(f.ranks.empty());
      CHECK(f.share == doctest::Approx(30.0 / 132).epsilon(0.05));
      CHECK_MESSAGE(f.sentence.find(limit ? "the container's CPU limit throttles all ranks 23 % of the time"
                                          : "the hypervisor takes 23 % of the CPU time of all ranks") !=
                        std::string::npos,
                    f.sentence);
      REQUIRE(!report.what_if.empty());
      CHECK(report.what_if[0].cause == SlowCause::cpu_contention);
    }
  }
}

TEST_CASE("a job that becomes slower because of a CPU limit says so") {
  MadeJob job{.ranks = 4, .steps = 300, .takers_known = true, .noise = 0.01, .seed = 8};
  job.change = [](int, int step, StepParts& p) {
    if (step >= 150) {
      take({.throttled = 60}, p);
    }
  };
  const auto report = analyse_speed(tests::make_ranks(job));
  REQUIRE(!report.findings.empty());
  const model::SpeedFinding& f = report.findings[0];
  CHECK(f.problem == SpeedProblem::slower);
  CHECK(f.cause == SlowCause::cpu_contention);
  CHECK_MESSAGE(
      f.sentence.find("the container's CPU limit throttled them 37 % of the time") != std::string::npos,
      f.sentence);
}

TEST_CASE("a job that became slower for an unknown reason and lacks CPUs as before is told both times") {
  for (const double delay : {0.0, 10.0, 40.0, 90.0}) {
    CAPTURE(delay);
    MadeJob job{.ranks = 1, .steps = 400, .noise = 0.01, .seed = 4};
    job.change = [delay](int, int step, StepParts& p) {
      p.delay += step < 200 ? 30 : 30 + delay;
      p.backward += step < 200 ? 0 : 50;  // shared caches
    };
    const auto report = analyse_speed(tests::make_ranks(job));
    REQUIRE(!report.findings.empty());
    const model::SpeedFinding& f = report.findings[0];
    CHECK((f.cause == SlowCause::cpu_contention) == (delay > 50));
    const bool said =
        f.sentence.find("; threads that are ready to run have no CPU for 70 ms of a step, 30 ms before") !=
        std::string::npos;
    CHECK_MESSAGE(said == (delay == 40), f.sentence);
  }
}

TEST_CASE("a rank that spins while it waits lacks the CPU in its waits, not in its own work") {
  for (const bool mpi : {true, false}) {
    CAPTURE(mpi);
    MadeJob job{.ranks = 3, .steps = 120, .visible_calls = true, .noise = 0.005, .seed = 8};
    job.change = [](int rank, int, StepParts& p) { p.forward += rank == 2 ? 40 : 0; };
    auto ranks = tests::make_ranks(job);
    for (auto& rank : ranks) {
      model::SpanFile& file = rank.spans[0];
      file.names[5] = mpi ? "MPI_Waitall" : "all_reduce";
      for (model::Span& span : file.spans) {
        if (span.name == 5) {  // several messages, of which none is named
          span.group = 0;
          span.sequence = 0;
          span.cpu_ns = 0;
        }
      }
      for (model::LoadSample& load : file.loads) {
        load.run_delay_ns = rank.rank == 2 ? 0 : (load.at_ns - job.begin_ns) * 3 / 10;
      }
    }
    const auto report = analyse_speed(ranks);
    // Who does not spin may have come late for lack of a CPU.
    REQUIRE(report.findings.size() == (mpi ? 1 : 0));
    if (mpi) {
      CHECK(report.findings[0].problem == SpeedProblem::slow_rank);
      CHECK(report.findings[0].ranks == model::RankSet{2});
      CHECK(report.findings[0].lost_s == doctest::Approx(0.040).epsilon(0.05));
    }
  }
}
