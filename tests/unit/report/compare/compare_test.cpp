#include "report/compare/compare.h"

#include "common/base/tr.h"
#include "report/compare/comparison_table.h"
#include "report/operations/analysis.h"
#include "report/render/comparison/comparison_page.h"
#include "report/speed/analysis.h"
#include "tests/unit/report/operations/made_events.h"
#include "tests/unit/report/speed/made_job.h"

#include <doctest/doctest.h>

#include <random>

using namespace xpurun;
using namespace xpurun::report;
using model::ComparedMetric;
using model::Comparison;
using model::Judgement;
using model::MetricKind;
using tests::MadeJob;
using tests::StepParts;

namespace {

RunSamples samples(const std::vector<RankRecord>& ranks) {
  SpeedAnalysis analysis(ranks.size());
  OperationAnalysis operations;
  for (const RankRecord& rank : ranks) {
    analysis.add(rank);
    operations.add(rank);
  }
  StepTable steps;
  model::SpeedReport report = analysis.finish(&steps);
  report.operations = operations.finish();
  return samples_of(report, steps, operations.samples());
}

RunSamples cpu_job(uint32_t seed, const std::function<void(int, int, StepParts&)>& change = {}) {
  MadeJob job{.steps = 150, .visible_calls = true, .seed = seed};
  if (change) {
    job.change = change;
  }
  return samples(tests::make_ranks(job));
}

// `factor`: of the matmuls, by rank.
std::vector<RankRecord> gpu_job(uint32_t seed, const std::vector<double>& factor, int64_t n = 1000) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, 0.01);
  std::vector<RankRecord> out;
  for (size_t r = 0; r < factor.size(); ++r) {
    RankRecord rank = tests::made_rank(static_cast<base::Rank>(r), static_cast<int>(factor.size()));
    rank.events[0].ops[tests::kMatmul].key.n = n;
    for (uint32_t i = 0; i < 200; ++i) {
      const double at = 1000.0 * i;
      tests::add_call(rank, tests::kMatmul, at, 200 * factor[r] * std::exp(normal(random)), i);
      tests::add_call(rank, tests::kCopy, at + 800, 20 * std::exp(normal(random)), i);
    }
    out.push_back(std::move(rank));
  }
  return out;
}

const ComparedMetric* metric(const Comparison& c, MetricKind kind, const std::string& name = "") {
  for (const ComparedMetric& m : c.metrics) {
    if (m.kind == kind && m.name.find(name) != std::string::npos) {
      return &m;
    }
  }
  return nullptr;
}

Judgement judgement(const Comparison& c, MetricKind kind, const std::string& name = "") {
  const ComparedMetric* m = metric(c, kind, name);
  return m == nullptr ? Judgement::unclear : m->judgement;
}

}  // namespace

TEST_CASE("a slower data loader is named") {
  const RunSamples a = cpu_job(1);
  const RunSamples b = cpu_job(2, [](int, int, StepParts& p) { p.data += 40; });
  const Comparison c = compare(a, b);
  REQUIRE_FALSE(c.metrics.empty());
  CHECK(c.metrics.front().kind == MetricKind::step);
  CHECK(c.metrics.front().judgement == Judgement::slower);
  CHECK(judgement(c, MetricKind::stage, "data") == Judgement::slower);
  CHECK(metric(c, MetricKind::stage, "data")->ranks == "all ranks");
  CHECK(metric(c, MetricKind::stage, "data")->step_share == doctest::Approx(0.4).epsilon(0.1));
  CHECK(judgement(c, MetricKind::stage, "forward") == Judgement::same);
  CHECK(judgement(c, MetricKind::stage, "optimizer") == Judgement::same);
  CHECK(c.sentence.find("B is ") == 0);
  CHECK(c.sentence.find("waiting for the next batch takes") != std::string::npos);
  CHECK(c.sentence.find("everything else is within the noise") != std::string::npos);

  const Comparison back = compare(b, a);
  CHECK(back.metrics.front().judgement == Judgement::faster);
  CHECK(back.sentence.find("faster") != std::string::npos);
  CHECK(back.metrics.front().p == doctest::Approx(c.metrics.front().p));
}

TEST_CASE("one rank that has changed is named") {
  const Comparison c =
      compare(cpu_job(1), cpu_job(2, [](int rank, int, StepParts& p) { p.forward += rank == 2 ? 60 : 0; }));
  REQUIRE(judgement(c, MetricKind::stage, "forward") == Judgement::slower);
  CHECK(metric(c, MetricKind::stage, "forward")->ranks == "2");
  CHECK(judgement(c, MetricKind::step) == Judgement::slower);
}

TEST_CASE("equal runs do not differ") {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const Comparison c = compare(cpu_job(seed), cpu_job(seed + 1000));
    CHECK_MESSAGE(c.sentence.find("no significant difference") == 0, c.sentence);
    const Comparison g =
        compare(samples(gpu_job(seed, {1, 1.01, 0.99})), samples(gpu_job(seed + 1000, {1, 1.01, 0.99})));
    CHECK_MESSAGE(g.sentence.find("no significant difference") == 0, g.sentence);
  }
}

TEST_CASE("a slower matmul is named with its ranks") {
  const RunSamples a = samples(gpu_job(1, {1, 1, 1, 1}));
  const Comparison all = compare(a, samples(gpu_job(2, {1.2, 1.2, 1.2, 1.2})));
  const ComparedMetric* m = metric(all, MetricKind::matmul);
  REQUIRE(m != nullptr);
  CHECK(m->judgement == Judgement::slower);
  CHECK(m->effect == doctest::Approx(0.2).epsilon(0.05));
  CHECK(m->ranks == "all ranks");
  CHECK(m->a_tflops == doctest::Approx(2e9 / m->a_s / 1e12));
  CHECK(m->b_tflops == doctest::Approx(2e9 / m->b_s / 1e12));
  CHECK(m->a_spread_s.size() == 5);
  CHECK(m->a_spread_s[2] == m->a_s);
  CHECK(metric(all, MetricKind::memory)->a_tflops < 0);
  CHECK(judgement(all, MetricKind::memory) == Judgement::same);
  CHECK(all.sentence.find("the matmul 1000x1000x1000 bf16 TN takes ") != std::string::npos);
  CHECK(all.least_effect == kLeastEffectOnGpus);

  const Comparison one = compare(a, samples(gpu_job(2, {1, 1, 1.3, 1})));
  CHECK(metric(one, MetricKind::matmul)->ranks == "2");
}

TEST_CASE("the skew of the ranks at a collective is compared") {
  // Rank 1 begins later than rank 0, by `late_us`; all end together.
  const auto job = [](double late_us) {
    auto ranks = gpu_job(1, {1, 1});
    for (uint32_t r = 0; r < 2; ++r) {
      for (uint32_t i = 0; i < 200; ++i) {
        const double late = r * (late_us + 0.01 * (i % 7));
        tests::add_call(ranks[r], tests::kAllReduce, 1000.0 * i + 300 + late, 400 - late, i + 1);
      }
    }
    return samples(ranks);
  };
  const Comparison c = compare(job(50), job(150));
  const ComparedMetric* m = metric(c, MetricKind::skew);
  REQUIRE(m != nullptr);
  CHECK(m->a_s == doctest::Approx(50e-6).epsilon(0.01));
  CHECK(m->b_s == doctest::Approx(150e-6).epsilon(0.01));
  CHECK(m->judgement == Judgement::slower);
  CHECK(c.sentence.find("the skew of the ranks at AllReduce of ") != std::string::npos);
  // Below what the clocks of hosts can tell.
  CHECK(judgement(compare(job(4), job(12)), MetricKind::skew) == Judgement::same);
}

TEST_CASE("operations of one side only are listed") {
  const Comparison c = compare(samples(gpu_job(1, {1, 1})), samples(gpu_job(2, {1, 1}, 2048)));
  REQUIRE(c.only_a.size() == 1);
  REQUIRE(c.only_b.size() == 1);
  CHECK(c.only_a[0] == "the matmul 1000x1000x1000 bf16 TN");
  CHECK(c.only_b[0] == "the matmul 1000x2048x1000 bf16 TN");
  CHECK(metric(c, MetricKind::matmul) == nullptr);
}

TEST_CASE("nothing in common, and too few values") {
  CHECK(compare({}, {}).sentence.find("nothing can be compared") == 0);
  RunSamples few;
  few.metrics.push_back({.kind = MetricKind::matmul, .name = "x", .blocks = {1, 2, 3}, .count = 3});
  const Comparison c = compare(few, few);
  CHECK(c.metrics[0].judgement == Judgement::unclear);
  CHECK(c.sentence.find("too few") != std::string::npos);
}

TEST_CASE("renumbering the ranks of both runs changes their numbers only") {
  const auto renumbered = [](std::vector<RankRecord> ranks) {
    for (RankRecord& rank : ranks) {
      rank.rank = 10 - rank.rank;
    }
    return ranks;
  };
  const auto a = gpu_job(1, {1, 1, 1, 1});
  const auto b = gpu_job(2, {1, 1.4, 1, 1});
  const Comparison c = compare(samples(a), samples(b));
  const Comparison d = compare(samples(renumbered(a)), samples(renumbered(b)));
  CHECK(metric(c, MetricKind::matmul)->effect == metric(d, MetricKind::matmul)->effect);
  CHECK(metric(c, MetricKind::matmul)->ranks == "1");
  CHECK(metric(d, MetricKind::matmul)->ranks == "9");
}

TEST_CASE("the page and the table hold every metric") {
  Comparison c = compare(samples(gpu_job(1, {1, 1})), samples(gpu_job(2, {1.5, 1.5})));
  c.a.name = "runs/<b>";
  const TextTable table = comparison_table(c, 1);
  CHECK(table.all_rows == c.metrics.size());
  CHECK(table.rows.size() == 1);
  const std::string page = comparison_page(c);
  CHECK(page.find("<b>") == std::string::npos);
  CHECK(page.find("runs/&lt;b&gt;") != std::string::npos);
  CHECK(page.find("the matmul 1000x1000x1000 bf16 TN") != std::string::npos);
  CHECK(page.find("<svg class=\"effects\"") != std::string::npos);
  CHECK(page.find("<svg class=\"spread pairs\"") != std::string::npos);
  CHECK(page.find("A TFLOP/s") != std::string::npos);
  CHECK(page.find("src=") == std::string::npos);
  CHECK(page.find("href=\"http") == std::string::npos);
  CHECK(effect_plot({}).empty());
  const base::Speaking speaking(base::Language::chinese);
  const std::string chinese = comparison_page(c);
  CHECK(chinese.find("<html lang=\"zh-CN\">") != std::string::npos);
  CHECK(chinese.find("从 A 到 B 的变化") != std::string::npos);
  CHECK(chinese.find("矩阵乘 1000x1000x1000 bf16 TN") != std::string::npos);
}

TEST_CASE("the newest levels of both runs are compared") {
  const RunSamples a = cpu_job(1);
  const RunSamples b = samples(tests::make_ranks(
      {.steps = 400, .visible_calls = true, .seed = 2, .change = [](int rank, int step, StepParts& p) {
         p.forward += rank == 1 && step >= 250 ? 100 : 0;
       }}));
  const Comparison c = compare(a, b);
  REQUIRE_FALSE(c.metrics.empty());
  CHECK_MESSAGE(c.metrics.front().judgement == Judgement::slower, c.sentence);
  CHECK(c.metrics.front().effect == doctest::Approx(1.0).epsilon(0.1));
  // The rank that computes longer comes before those that wait for it.
  CHECK_MESSAGE(c.sentence.find(": rank 1 (host a) costs ") != std::string::npos, c.sentence);
  CHECK_MESSAGE(c.sentence.find("on rank 1;") != std::string::npos, c.sentence);
}
