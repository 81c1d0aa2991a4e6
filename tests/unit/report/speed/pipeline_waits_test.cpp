// Made training pipelines: a stage that waits in recv for a slow stage is not slow itself.
#include "report/speed/analysis.h"
#include "tests/unit/report/speed/made_job.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>

using namespace xpurun;
using namespace xpurun::report;
using model::SlowCause;
using model::SpeedProblem;
using model::Stage;
using tests::ms;

namespace {

struct MadePipeline {
  std::vector<double> forward_ms{10, 10, 10, 10};  // of a micro-batch, by stage; backward takes twice as long
  std::vector<base::Rank> ranks{0, 1, 2, 3};       // by stage
  int micro_batches = 4;
  int steps = 60;
  bool cpu_times = false;
  uint32_t seed = 1;
};

class Pipeline {
 public:
  explicit Pipeline(const MadePipeline& made)
      : made_(made), random_(made.seed), now_(made.ranks.size(), ms(1000)), out_(made.ranks.size()) {
    for (size_t s = 0; s < out_.size(); ++s) {
      out_[s].rank = made_.ranks[s];
      out_[s].host = "a";
      out_[s].spans.resize(1);
      out_[s].spans[0].names = {"", "forward", "backward", "SGD.step", "recv", "send"};
    }
  }

  std::vector<RankRecord> run() {
    const size_t last = out_.size() - 1;
    for (int step = 0; step < made_.steps; ++step) {
      for (int batch = 0; batch < made_.micro_batches; ++batch) {
        for (size_t s = 0; s <= last; ++s) {
          receive(s, s - 1, s > 0);
          compute(s, Stage::forward, made_.forward_ms[s]);
          send(s, s + 1, s < last);
        }
      }
      for (int batch = 0; batch < made_.micro_batches; ++batch) {
        for (size_t s = last + 1; s-- > 0;) {
          receive(s, s + 1, s < last);
          compute(s, Stage::backward, 2 * made_.forward_ms[s]);
          send(s, s - 1, s > 0);
        }
      }
      for (size_t s = 0; s <= last; ++s) {
        compute(s, Stage::optimizer, 2);
      }
    }
    std::sort(out_.begin(), out_.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
    return out_;
  }

 private:
  using Pair = std::pair<size_t, size_t>;  // stages

  model::Span& add(size_t s, Stage stage, uint32_t name, int64_t duration, bool uses_cpu) {
    auto& spans = out_[s].spans[0].spans;
    spans.push_back({.begin_ns = now_[s],
                     .duration_ns = duration,
                     .cpu_ns = made_.cpu_times && uses_cpu ? duration : -1,
                     .stage = stage,
                     .name = name,
                     .thread = 100});
    now_[s] += duration;
    return spans.back();
  }

  void compute(size_t s, Stage stage, double mean_ms) {
    std::normal_distribution<double> noise(0, 0.02);
    const uint32_t name = stage == Stage::forward ? 1 : stage == Stage::backward ? 2 : 3;
    add(s, stage, name, ms(mean_ms * std::exp(noise(random_))), true);
  }

  void name_pair(model::Span& span, size_t s, Pair pair, int number) {
    auto& names = out_[s].spans[0].names;
    const auto rank_at = [this](size_t stage) { return static_cast<uint64_t>(made_.ranks[stage]); };
    names.push_back(model::pair_group("world.0", rank_at(pair.first), rank_at(pair.second), false));
    span.group = static_cast<uint32_t>(names.size() - 1);
    span.sequence = static_cast<uint64_t>(number);
  }

  // The message is in a buffer of the network, so the sender goes on.
  void send(size_t s, size_t to, bool exists) {
    if (exists) {
      sent_[{s, to}].push_back(now_[s] + ms(0.2));
      name_pair(add(s, Stage::communication, 5, ms(0.1), false), s, {s, to},
                static_cast<int>(sent_[{s, to}].size()));
    }
  }

  void receive(size_t s, size_t from, bool exists) {
    if (exists) {
      const int number = ++received_[{from, s}];
      const int64_t there = sent_[{from, s}].at(static_cast<size_t>(number) - 1);
      const int64_t end = std::max(now_[s] + ms(0.05), there);
      name_pair(add(s, Stage::communication, 4, end - now_[s], false), s, {from, s}, number);
    }
  }

  MadePipeline made_;
  std::mt19937 random_;
  std::vector<int64_t> now_;
  std::vector<RankRecord> out_;
  std::map<Pair, std::vector<int64_t>> sent_;
  std::map<Pair, int> received_;
};

model::SpeedReport analyse_pipeline(const MadePipeline& made) {
  return analyse_speed(Pipeline(made).run());
}

}  // namespace

TEST_CASE("pipeline: the slow stage is named, whatever the numbers of the ranks") {
  MadePipeline made;
  std::sort(made.ranks.begin(), made.ranks.end());
  do {
    for (size_t slow = 0; slow < 4; ++slow) {
      made.forward_ms = {10, 10, 10, 10};
      made.forward_ms[slow] = 13;
      made.cpu_times = made.seed++ % 2 == 0;
      const auto report = analyse_pipeline(made);
      REQUIRE_MESSAGE(report.findings.size() == 1, "stage " << slow << ": " << report.sentence);
      CHECK(report.waits_measured);
      CHECK(report.findings[0].problem == SpeedProblem::slow_rank);
      CHECK_MESSAGE(report.findings[0].ranks == model::RankSet{made.ranks[slow]},
                    report.findings[0].sentence);
      CHECK(report.findings[0].confidence == model::Confidence::high);
    }
  } while (std::next_permutation(made.ranks.begin(), made.ranks.end()));
}

TEST_CASE("pipeline: equal stages that wait for each other are not slow") {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    for (const bool cpu_times : {false, true}) {
      const auto report = analyse_pipeline({.cpu_times = cpu_times, .seed = seed});
      CHECK(report.waits_measured);
      CHECK_MESSAGE(report.findings.empty(), "seed " << seed << ": " << report.sentence);
    }
  }
}

TEST_CASE("pipeline: the time in recv is a wait, the time of the stage is not") {
  const auto report = analyse_pipeline({.forward_ms = {10, 10, 20, 10}});
  REQUIRE(report.ranks.size() == 4);
  for (const model::RankSpeed& rank : report.ranks) {
    // Four micro-batches, forward and backward, and the optimizer.
    CHECK(rank.own_s == doctest::Approx(rank.rank == 2 ? 0.242 : 0.122).epsilon(0.05));
  }
}

TEST_CASE("the group of a send and its recv") {
  CHECK(model::pair_group("abc.0", 1, 2, false) == "abc.0 1>2");
  CHECK(model::pair_group("abc.0", 1, 2, true) == "abc.0 1>2 objects");
  CHECK(model::whole_group("abc.0 1>2") == "abc.0");
  CHECK(model::whole_group("abc.0 1>2 objects") == "abc.0");
  for (const char* whole :
       {"", "abc.0", "a>b", "my group 1>", "1>2", " >2", "objects", "x objects", "a 1 >2"}) {
    CHECK(model::whole_group(whole) == whole);
    CHECK(!model::is_pair_group(whole));
  }
}
