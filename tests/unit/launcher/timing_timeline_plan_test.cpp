#include "launcher/timing/timeline_plan.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

using Kind = TimelinePlan::Action::Kind;

constexpr int64_t kPlanSecond = 1'000'000'000;
constexpr int64_t kWall = 1'700'000'000 * kPlanSecond;  // a multiple of 10 s, not of a minute
constexpr base::MonoNs kPlanStart = 5'000 * kPlanSecond;

// A job of two ranks that makes steps of equal length. Looks every tenth of a second, as the supervisor does.
struct Job {
  TimelinePlan plan;
  double step_s = 0.5;
  double gpu_from_s = 0;    // use of the GPU begins
  double steps_from_s = 0;  // the first step that is counted begins
  double lag_s = 0;         // lateness of rank 1
  double stands_at = 1e9;   // rank 1 stands still after this number of steps
  bool foreign = false;     // another user's trace is running
  bool ours = false;
  double at_s = 0;
  std::vector<std::string> told;

  explicit Job(const char* list) : plan(*timeline_specs(list)) {}

  double steps(double at) const { return at < steps_from_s ? 0 : std::floor((at - steps_from_s) / step_s); }
  void run_until(double until_s) {
    for (; at_s < until_s - 1e-9; at_s += 0.1) {
      const auto ns = static_cast<int64_t>(at_s * 10 + 0.5) * (kPlanSecond / 10);
      const double fast = steps(at_s + 1e-6);
      const double slow = std::min(steps(at_s + 1e-6 - lag_s), stands_at);
      const auto action = plan.look({.now = kPlanStart + ns,
                                     .wall_ns = kWall + ns,
                                     .ranks = at_s >= gpu_from_s ? size_t{2} : size_t{0},
                                     .slowest = static_cast<uint64_t>(slow),
                                     .fastest = static_cast<uint64_t>(fast),
                                     .step_s = fast > 0 ? step_s : -1,
                                     .tracing = foreign || ours});
      if (action.kind == Kind::start) {
        const int64_t start = action.start_wall_ns;
        REQUIRE(start % kPlanSecond == 0);
        REQUIRE((start == 0 || start >= kWall + ns + kPlanSecond / 10));
        ours = true;
        told.push_back(
            fmt::format("{:.1f} {} {}", at_s, action.spec.text,
                        start == 0 ? "at once" : fmt::format("from {}", (start - kWall) / kPlanSecond)));
        CHECK(action.limit_s > 0);
        CHECK(action.limit_s <= 3600);
        CHECK(action.count > 0);
      } else if (action.kind == Kind::end) {
        ours = false;
        told.push_back(fmt::format("{:.1f} {} ends", at_s, action.spec.text));
      } else if (action.kind == Kind::missed) {
        told.push_back(fmt::format("{:.1f} {} missed", at_s, action.spec.text));
      }
    }
  }
};

using PlanMessages = std::vector<std::string>;

}  // namespace

TEST_CASE("plan: the first seconds begin with the first use of a GPU, whatever the steps") {
  Job job("first:2s");
  job.gpu_from_s = 2.3;
  job.step_s = 0.1;
  job.run_until(60);
  // The ranks need two tenths of a second until the trace begins.
  CHECK(job.told == PlanMessages{"2.3 first:2s at once", "4.5 first:2s ends"});
}

TEST_CASE("plan: the first steps begin with the first use of a GPU") {
  Job job("first:4");
  job.gpu_from_s = 2.3;
  job.steps_from_s = 6;
  job.run_until(60);
  // Four steps have ended at 8 s; what they left on the GPU takes half a second more.
  CHECK(job.told == PlanMessages{"2.3 first:4 at once", "8.5 first:4 ends"});
  CHECK(job.plan.not_begun().empty());
}

TEST_CASE("plan: steps begin with the last full second before them") {
  Job job("steps:100-110");
  job.gpu_from_s = 1;
  job.steps_from_s = 3.3;
  job.run_until(100);
  // Step 100 lasts from 52.8 s to 53.3 s, step 110 ends at 58.3 s.
  CHECK(job.told == PlanMessages{"51.3 steps:100-110 from 52", "58.8 steps:100-110 ends"});
}

TEST_CASE("plan: long steps; a step that comes too early is not missed as a whole") {
  Job job("steps:3-3");
  job.step_s = 30;
  job.steps_from_s = 0.2;
  job.run_until(61);
  CHECK(job.told == PlanMessages{"53.3 steps:3-3 from 54"});
  // Step 2 was shorter than expected: the third one has begun already.
  Job late("steps:3-3");
  late.step_s = 30;
  late.steps_from_s = 0.2;
  late.run_until(40);
  late.step_s = 20;
  late.run_until(63);
  CHECK(late.told == PlanMessages{"40.2 steps:3-3 at once"});
}

TEST_CASE("plan: the slowest rank ends the trace, but not one that stands still") {
  Job job("first:10");
  job.lag_s = 0.4;
  job.run_until(30);
  CHECK(job.told == PlanMessages{"0.0 first:10 at once", "5.9 first:10 ends"});
  Job still("first:10");
  still.stands_at = 7;
  still.run_until(60);
  // The other one ends step 10 at 5 s; the wait for this one lasts 5 s.
  CHECK(still.told == PlanMessages{"0.0 first:10 at once", "10.5 first:10 ends"});
}

TEST_CASE("plan: every ten minutes of UTC, for ten steps") {
  Job job("every:1m");
  job.run_until(200);
  // kWall is 20 s after a full minute.
  CHECK(job.told == PlanMessages{"39.3 every:1m from 40", "45.0 every:1m ends", "99.3 every:1m from 100",
                                 "105.0 every:1m ends", "159.3 every:1m from 160", "165.0 every:1m ends"});
  CHECK(job.plan.not_begun().empty());
}

TEST_CASE("plan: a periodic trace gives way to chosen steps") {
  Job job("every:1m,steps:85-86");
  job.run_until(60);
  CHECK(job.told == PlanMessages{"39.3 every:1m from 40", "40.3 every:1m ends", "40.4 steps:85-86 from 41",
                                 "43.5 steps:85-86 ends"});
}

TEST_CASE("plan: a trace that somebody asked for goes on") {
  Job job("steps:10-20,steps:60-61,every:30s");
  job.foreign = true;
  job.run_until(8);
  CHECK(job.told.empty());
  job.foreign = false;
  job.run_until(9.2);  // the rest of the steps
  CHECK(job.told == PlanMessages{"8.0 steps:10-20 at once"});
  job.run_until(12);
  job.told.clear();
  job.foreign = true;
  job.run_until(31);
  CHECK(job.told == PlanMessages{"30.5 steps:60-61 missed"});
  CHECK(job.plan.not_begun().size() == 1);
  CHECK(job.plan.not_begun()[0].text == "every:30s");
}

TEST_CASE("plan: what has not begun is known, and a trace that ended otherwise is not ended again") {
  Job job("first:3,steps:500-501");
  job.gpu_from_s = 1e9;
  job.run_until(10);
  CHECK(job.told.empty());
  CHECK(job.plan.not_begun().size() == 2);
  CHECK(job.plan.counted() == 19);
  Job other("first:100");
  other.run_until(5);
  other.ours = false;
  other.plan.trace_ended();  // by its limit of calls
  other.run_until(80);
  CHECK(other.told == PlanMessages{"0.0 first:100 at once"});
  CHECK(TimelinePlan({}).empty());
}
