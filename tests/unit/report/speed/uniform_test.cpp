// A job that becomes slower on all ranks at once: why.
#include "report/speed/analysis.h"
#include "report/speed/steps/kept_samples.h"
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

constexpr int kSlowFrom = 200;

struct Slower {
  double matmul = 1;           // factor on all ranks
  double matmul_of_rank0 = 0;  // if positive: on that rank only
  double delay_before_us = 2000;
  double delay_after_us = 2000;
  int faults = 0;  // major page faults of a step
  double more_ms = 40;
};

// All ranks need `more_ms` longer from step kSlowFrom on; the backward pass has one timed matmul a step.
std::vector<RankRecord> slower_ranks(const Slower& slower, bool gpu = true) {
  MadeJob made{.ranks = 4, .steps = 400, .gpu = gpu ? "yes" : "", .seed = 31};
  made.change = [&](int, int step, StepParts& p) { p.backward += step >= kSlowFrom ? slower.more_ms : 0; };
  auto ranks = tests::make_ranks(made);
  for (RankRecord& rank : ranks) {
    int64_t faults = 0;
    int step = 0;
    for (model::LoadSample& load : rank.spans[0].loads) {
      faults += step++ >= kSlowFrom ? slower.faults : 0;
      load.major_faults = faults;
    }
    if (!gpu) {
      continue;
    }
    model::EventFile file;
    file.ops[1].key.op_class = static_cast<uint8_t>(wire::OpClass::matmul);
    file.ops[1].key.m = 4096;
    file.ops[1].function = "cublasGemmEx";
    uint32_t number = 0;
    for (const model::Span& span : rank.spans[0].spans) {
      if (span.stage == model::Stage::backward) {
        const bool now = number >= kSlowFrom;
        const double factor =
            slower.matmul_of_rank0 > 0 ? rank.rank == 0 ? slower.matmul_of_rank0 : 1 : slower.matmul;
        const double delay = now ? slower.delay_after_us : slower.delay_before_us;
        file.events.push_back(
            {.event = {.begin_ns = static_cast<uint64_t>(span.begin_ns),
                       .duration_ns = static_cast<uint64_t>(20e6 * (now ? factor : 1)),
                       .op = 1,
                       .sequence = number,
                       .delay_us = static_cast<decltype(model::TimedEvent::delay_us)>(delay)}});
        ++number;
      }
    }
    rank.events.push_back(std::move(file));
  }
  return ranks;
}

model::SpeedFinding slowdown_of(const std::vector<RankRecord>& ranks) {
  const auto report = analyse_speed(ranks);
  const auto at = std::find_if(report.findings.begin(), report.findings.end(),
                               [](const auto& f) { return f.problem == SpeedProblem::slower; });
  REQUIRE(at != report.findings.end());
  CHECK(at->ranks.empty());
  CHECK(at->since_wall_ns > 0);
  // The cause has the same share in the what-if as in the finding; an unknown one has none.
  const auto what_if = std::find_if(report.what_if.begin(), report.what_if.end(),
                                    [&](const auto& one) { return one.cause == at->cause; });
  CHECK((what_if != report.what_if.end()) == (at->cause != SlowCause::unknown));
  return *at;
}

}  // namespace

TEST_CASE("a whole job whose matmuls take longer: gpu_compute") {
  const auto f = slowdown_of(slower_ranks({.matmul = 1.5}));
  CHECK_MESSAGE(f.cause == SlowCause::gpu_compute, f.sentence);
  CHECK_MESSAGE(f.sentence.find("the same matmuls take 50 % longer than before") != std::string::npos,
                f.sentence);
}

TEST_CASE("matmuls that are slower on one rank, or by too little, do not explain a slow job") {
  CHECK(slowdown_of(slower_ranks({.matmul_of_rank0 = 1.5})).cause == SlowCause::unknown);
  // 10 % of the matmuls, while a step takes 40 % longer.
  CHECK(slowdown_of(slower_ranks({.matmul = 1.1})).cause == SlowCause::unknown);
  CHECK(slowdown_of(slower_ranks({})).cause == SlowCause::unknown);
}

TEST_CASE("a whole job that waits for pages from disk: memory") {
  const auto f = slowdown_of(slower_ranks({.faults = 20}));
  CHECK_MESSAGE(f.cause == SlowCause::memory, f.sentence);
  CHECK_MESSAGE(f.sentence.find("the ranks wait for memory pages from disk") != std::string::npos,
                f.sentence);
  CHECK(slowdown_of(slower_ranks({.faults = 20}, false)).cause == SlowCause::memory);
  // One fault a step cannot last 40 ms.
  CHECK(slowdown_of(slower_ranks({.faults = 1})).cause == SlowCause::unknown);
}

TEST_CASE("a whole job whose GPUs wait for work: host_issue") {
  const auto f = slowdown_of(slower_ranks({.delay_after_us = 8}));
  CHECK_MESSAGE(f.cause == SlowCause::host_issue, f.sentence);
  CHECK_MESSAGE(
      f.sentence.find("calls start on the GPU after 8 us, before after 2.0 ms") != std::string::npos,
      f.sentence);
  // They waited for work before, too.
  CHECK(slowdown_of(slower_ranks({.delay_before_us = 10, .delay_after_us = 8})).cause == SlowCause::unknown);
}

TEST_CASE("kept samples: the latest, and some of all times, in order") {
  for (const size_t count : {1, 10, 100, 1000, 100'000}) {
    KeptSamples kept(64, 32);
    for (size_t i = 0; i < count; ++i) {
      kept.add({.at_ns = static_cast<int64_t>(i), .seconds = 1});
    }
    const auto out = std::move(kept).take();
    CHECK(out.size() >= std::min<size_t>(count, 64));
    CHECK(out.size() <= 2 * 64 + 32);
    for (size_t i = 1; i < out.size(); ++i) {
      CHECK(out[i - 1].at_ns < out[i].at_ns);
    }
    CHECK(out.front().at_ns == 0);
    CHECK(out.back().at_ns == static_cast<int64_t>(count) - 1);
    for (size_t tenth = 0; count >= 1000 && tenth < 10; ++tenth) {
      const auto in = std::count_if(out.begin(), out.end(), [&](const TimedSample& one) {
        return static_cast<size_t>(one.at_ns) * 10 / count == tenth;
      });
      CHECK(in >= 1);
    }
  }
}
