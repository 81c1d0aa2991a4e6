#include "launcher/watch/hang_detector.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using namespace xpurun;
using launcher::HangDetector;
using launcher::StallChange;
using launcher::StallEvent;
using launcher::StillRank;
using launcher::WaitTarget;
using model::RankSet;

namespace {

constexpr base::MonoNs kOneSecond = 1'000'000'000;
constexpr base::MonoNs kSteps = kOneSecond / 4;  // between two updates of run()

// "raised 1: 0-1"
std::string text(const std::vector<StallEvent>& events) {
  constexpr const char* kNames[] = {"raised", "joined", "judge", "due", "escalated", "merged", "cleared"};
  std::string out;
  for (const StallEvent& e : events) {
    out += out.empty() ? "" : "; ";
    out += kNames[static_cast<int>(e.change)];
    out += " " + std::to_string(e.stall);
    out += e.ranks.empty() ? "" : ": " + e.ranks.text();
  }
  return out;
}

std::string update(HangDetector& d, double at_s, const std::vector<StillRank>& ranks) {
  return text(d.update(base::s_to_ns(at_s), ranks));
}

StillRank rank(base::Rank n, double since_s, WaitTarget waits_for = WaitTarget::nobody, RankSet with = {}) {
  return {
      .rank = n, .last_progress = base::s_to_ns(since_s), .waits_for = waits_for, .with = std::move(with)};
}

// All events from `from_s` to `to_s` of ranks that do not change.
std::string run(HangDetector& d, double from_s, double to_s, const std::vector<StillRank>& ranks) {
  std::string out;
  for (base::MonoNs at = base::s_to_ns(from_s); at <= base::s_to_ns(to_s); at += kSteps) {
    const std::string now = text(d.update(at, ranks));
    out += out.empty() || now.empty() ? now : "; " + now;
  }
  return out;
}

}  // namespace

TEST_CASE("a rank that is still for the timeout raises a stall, once") {
  HangDetector d(10, 3);
  CHECK(update(d, 9, {rank(0, 0), rank(1, 5)}).empty());
  CHECK(d.next_deadline() == 10 * kOneSecond);
  const auto events = d.update(10 * kOneSecond, {rank(0, 0), rank(1, 5)});
  CHECK(text(events) == "raised 1: 0");
  CHECK(events[0].longest == 0);
  CHECK(update(d, 11, {rank(0, 0), rank(1, 5)}).empty());
  SUBCASE("it is cleared by progress, and another one is raised") {
    CHECK(update(d, 20, {rank(0, 19), rank(1, 19)}) == "cleared 1");
    CHECK(update(d, 29, {rank(0, 19), rank(1, 25)}) == "raised 2: 0");
  }
  SUBCASE("it is cleared by the end of its ranks") {
    CHECK(update(d, 20, {rank(1, 19)}) == "cleared 1");
  }
  SUBCASE("it is cleared by a restart") {
    CHECK(update(d, 20, {rank(0, 19.5), rank(1, 19)}) == "cleared 1");
  }
}

TEST_CASE("ranks that wait and are almost due join a stall that is raised") {
  const auto helpers = WaitTarget::helpers;
  HangDetector d(10, 0);
  SUBCASE("both deadlocked") {
    CHECK(run(d, 9, 12, {rank(0, 0, helpers), rank(1, 2.5, helpers), rank(2, 8, helpers)}) ==
          "raised 1: 0-1");
    // From then on, rank 1 may be the culprit.
    CHECK(run(d, 12.25, 13, {rank(0, 0, helpers), rank(1, 2.5, helpers), rank(2, 8, helpers)}) ==
          "judge 1: 0-1");
  }
  SUBCASE("a rank that is far from due is not said") {
    CHECK(update(d, 10, {rank(0, 0, helpers), rank(1, 3.5, helpers)}) == "raised 1: 0");
  }
  SUBCASE("a rank that may be working is not said") {
    CHECK(update(d, 10, {rank(0, 0, helpers), rank(1, 1)}) == "raised 1: 0");
  }
  SUBCASE("a rank alone is not said before it is due") {
    CHECK(update(d, 9, {rank(0, 8, helpers), rank(1, 0, helpers)}).empty());
  }
  SUBCASE("a rank of another group is not said") {
    CHECK(update(d, 10, {rank(0, 0, WaitTarget::outside), rank(1, 1, helpers)}) == "raised 1: 0");
  }
  SUBCASE("half of a short timeout has to pass") {
    HangDetector brief(2, 0);
    CHECK(update(brief, 2, {rank(0, 0, helpers), rank(1, 0.9, helpers), rank(2, 1.1, helpers)}) ==
          "raised 1: 0-1");
  }
}

TEST_CASE("ranks that became still together are one stall, others are stalls of their own") {
  HangDetector d(10, 0);
  CHECK(run(d, 9, 40, {rank(0, 0), rank(1, 2), rank(2, 20)}) ==
        "raised 1: 0; joined 1: 0-1; raised 2: 2; judge 1: 0-1");
}

TEST_CASE("an idle rank takes no other rank in, and ends no judgement of another stall") {
  HangDetector d(3, 0);
  const auto idle = rank(2, 0, WaitTarget::outside);
  CHECK(run(d, 0, 14, {rank(0, 13), rank(1, 13), idle}) == "raised 1: 2; judge 1: 2");
  CHECK(run(d, 14.25, 60, {rank(0, 14), rank(1, 14.2), idle}) == "raised 2: 0; joined 2: 0-1; judge 2: 0-1");
  CHECK(update(d, 61, {rank(0, 60), rank(1, 60), idle}) == "cleared 2");
}

TEST_CASE("ranks that wait for others belong to the ranks of their calls") {
  HangDetector d(10, 0);
  SUBCASE("as recorded") {
    CHECK(update(d, 60,
                 {rank(0, 10, WaitTarget::peers, {1, 2}), rank(1, 30), rank(2, 20, WaitTarget::outside),
                  rank(3, 40), rank(4, 0, WaitTarget::outside)}) ==
          "raised 1: 0-2; raised 2: 3; raised 3: 4");
  }
  SUBCASE("or to all, where the call is not recorded") {
    CHECK(update(d, 60, {rank(0, 10, WaitTarget::peers), rank(1, 30), rank(2, 20, WaitTarget::outside)}) ==
          "raised 1: 0-2");
  }
}

TEST_CASE(
    "a stall is judged again when other ranks end, when ranks join and when a rank's condition changes") {
  HangDetector d(10, 0);
  CHECK(run(d, 0, 20, {rank(0, 19), rank(1, 0)}) == "raised 1: 1");
  SUBCASE("the other rank ends") {
    CHECK(run(d, 20, 60, {rank(1, 0)}) == "judge 1: 1; judge 1: 1");  // the other rank; three timeouts
  }
  SUBCASE("a rank appears") {
    CHECK(run(d, 20, 29, {rank(0, 20), rank(1, 0), rank(2, 20)}) == "judge 1: 1");
  }
  SUBCASE("the rank stops computing") {
    StillRank changed = rank(1, 0);
    changed.condition = 7;
    CHECK(run(d, 20, 22, {rank(0, 20), changed}) == "judge 1: 1");
  }
  SUBCASE("a condition that changes all the time") {
    int judged = 0;
    for (int i = 0; i < 1000; ++i) {
      StillRank changing = rank(1, 0);
      changing.condition = static_cast<unsigned>(i % 3);
      judged += d.update((20 + i) * kOneSecond, {rank(0, 20 + i), changing}).empty() ? 0 : 1;
    }
    CHECK(judged <= 10);
  }
}

TEST_CASE("a rank that may be the culprit is judged soon after it has joined, waiting ranks less often") {
  HangDetector d(10, 0);
  std::vector<StillRank> ranks = {rank(0, 0, WaitTarget::peers)};
  int judged = 0;
  for (int i = 0; i < 100; ++i) {
    ranks.push_back(rank(i + 1, i, WaitTarget::peers));
    judged += static_cast<int>(d.update((10 + i) * kOneSecond, ranks).size());
  }
  CHECK(judged < 16);
  ranks.push_back(rank(500, 101, WaitTarget::helpers));
  CHECK(run(d, 111, 113, ranks) == "joined 1: 0-100,500");
}

TEST_CASE("a stall whose ranks prove to be unrelated is divided, and related stalls are put together") {
  HangDetector d(10, 0);
  CHECK(run(d, 0, 12, {rank(0, 0), rank(1, 0.5), rank(2, 1)}) == "raised 1: 0; joined 1: 0-2");
  CHECK(run(d, 12.25, 20, {rank(0, 0), rank(1, 0.5, WaitTarget::outside), rank(2, 1)}) ==
        "raised 2: 1; joined 1: 0,2");
  CHECK(run(d, 20.25, 24, {rank(0, 0, WaitTarget::peers), rank(1, 0.5, WaitTarget::outside), rank(2, 1)}) ==
        "merged 2; joined 1: 0-2");
}

TEST_CASE("a stall escalates once after the allowed number of timeouts") {
  HangDetector d(10, 3);
  CHECK(update(d, 10, {rank(0, 0)}) == "raised 1: 0");
  CHECK(d.next_deadline() == 30 * kOneSecond);
  CHECK(update(d, 29, {rank(0, 0)}).empty());
  CHECK(update(d, 30, {rank(0, 0)}) == "escalated 1: 0");
  CHECK(update(d, 40, {rank(0, 0)}).empty());
}

TEST_CASE("each stall escalates by its own time; without busy timeouts it is judged again") {
  const std::vector<StillRank> ranks = {rank(0, 0), rank(1, 15)};
  HangDetector d(10, 3);
  CHECK(run(d, 0, 100, ranks) == "raised 1: 0; raised 2: 1; escalated 1: 0; escalated 2: 1");
  HangDetector never(10, 0);
  CHECK(run(never, 0, 100, ranks) == "raised 1: 0; raised 2: 1; judge 1: 0; judge 2: 1");
}

TEST_CASE("with busy_timeouts 1, a stall escalates at the next poll after it was raised") {
  HangDetector d(10, 1);
  CHECK(update(d, 10, {rank(0, 0)}) == "raised 1: 0");
  CHECK(text(d.update(10 * kOneSecond + 1, {rank(0, 0)})) == "escalated 1: 0");
}

TEST_CASE("time in which xpurun held the ranks does not count as stillness") {
  HangDetector d(10, 3);
  d.held_up(100 * kOneSecond);  // without effect, because no stall is open
  CHECK(update(d, 10, {rank(0, 0)}) == "raised 1: 0");
  d.held_up(7 * kOneSecond);
  CHECK(update(d, 36, {rank(0, 0)}).empty());
  CHECK(d.next_deadline() == 37 * kOneSecond);
  SUBCASE("once") {
    CHECK(update(d, 37, {rank(0, 0)}) == "escalated 1: 0");
  }
  SUBCASE("a new stall counts from its own beginning") {
    CHECK(update(d, 38, {rank(0, 37)}) == "cleared 1");
    CHECK(update(d, 47, {rank(0, 37)}) == "raised 2: 0");
    CHECK(update(d, 67, {rank(0, 37)}) == "escalated 2: 0");
  }
}

TEST_CASE("a timeout of zero never raises") {
  HangDetector d(0, 3);
  CHECK(update(d, 1'000'000, {rank(0, 0)}).empty());
  CHECK_FALSE(d.next_deadline());
}

TEST_CASE("time in which a rank had no CPU does not count as stillness, up to three timeouts") {
  HangDetector d(10, 3);
  const auto starving = [](double at_s, double starved_s) {
    StillRank out = rank(0, at_s);
    out.starved = base::s_to_ns(starved_s);
    return out;
  };
  SUBCASE("a rank that gets no CPU is not still") {
    CHECK(update(d, 12, {starving(0, 5)}).empty());
    CHECK(d.next_deadline() == 15 * kOneSecond);
    CHECK(update(d, 15, {starving(0, 5)}) == "raised 1: 0");
    CHECK(d.next_deadline() == 35 * kOneSecond);
    CHECK(update(d, 34, {starving(0, 9)}).empty());
    CHECK(update(d, 35, {starving(0, 9)}) == "escalated 1: 0");
  }
  SUBCASE("a rank that starves during the stall stays in the stall until it makes progress") {
    CHECK(update(d, 10, {starving(0, 0)}) == "raised 1: 0");
    CHECK(update(d, 20, {starving(0, 10)}).empty());
    CHECK(update(d, 21, {starving(20, 0)}) == "cleared 1");
  }
  SUBCASE("an endless loop is told at last") {
    CHECK(update(d, 39, {starving(0, 38)}).empty());
    CHECK(update(d, 40, {starving(0, 39)}) == "raised 1: 0");
  }
  SUBCASE("a waiting rank raises the stall, whatever the others lack") {
    const auto events = d.update(10 * kOneSecond, {starving(0, 9), rank(1, 0, WaitTarget::peers)});
    CHECK(text(events) == "raised 1: 1");
    CHECK(events[0].longest == 1);
  }
}

TEST_CASE("a rank that is proved to stand is a stall after a second, and judged again after the grace") {
  HangDetector detector(300, 0, 10);
  const auto at = [&](double seconds) {
    return detector.update(base::s_to_ns(seconds),
                           {{.rank = 0, .last_progress = 0, .waits_for = WaitTarget::peers, .proved = true},
                            {.rank = 1, .last_progress = base::s_to_ns(seconds)}});
  };
  CHECK(at(0.9).empty());
  auto events = at(1);
  REQUIRE(events.size() == 1);
  CHECK(events[0].change == StallChange::raised);
  CHECK(events[0].ranks == model::RankSet{0});
  CHECK(at(9).empty());
  events = at(10);
  REQUIRE(events.size() == 1);
  CHECK(events[0].change == StallChange::judge);
  CHECK(at(11).empty());
}

TEST_CASE("a stall that was raised early is judged again when its last rank is due") {
  HangDetector d(20, 0);
  const std::vector<StillRank> ranks = {rank(0, 2, WaitTarget::helpers), rank(1, 0, WaitTarget::peers)};
  d.set_timeout(15);
  CHECK(update(d, 15, ranks) == "raised 1: 0-1");
  d.set_timeout(20);
  CHECK(run(d, 16, 19.75, ranks) == "judge 1: 0-1");  // after a part of the timeout
  CHECK(update(d, 20, ranks) == "due 1: 0-1");
  CHECK(run(d, 20.25, 21.75, ranks).empty());
  CHECK(update(d, 22, ranks) == "judge 1: 0-1");
}

TEST_CASE("a look raises a stall early, which is due after the timeout") {
  HangDetector d(300, 0);
  const std::vector<StillRank> ranks = {rank(0, 0), rank(1, 0)};
  CHECK(run(d, 1, 16, ranks).empty());
  d.set_timeout(10);
  const auto raised = d.update(16 * kOneSecond, ranks);
  d.set_timeout(300);
  REQUIRE(text(raised) == "raised 1: 0-1");
  CHECK(raised[0].early);
  CHECK(run(d, 17, 299, ranks).empty());
  CHECK(d.next_deadline() == 300 * kOneSecond);
  // From then on it is a stall as any other.
  CHECK(update(d, 300, ranks) == "due 1: 0-1");
  CHECK(run(d, 301, 899, ranks).empty());
  CHECK(update(d, 900, ranks) == "judge 1: 0-1");

  HangDetector passes(300, 0);
  passes.set_timeout(10);
  CHECK(update(passes, 16, ranks) == "raised 1: 0-1");
  passes.set_timeout(300);
  CHECK(update(passes, 20, {rank(0, 19), rank(1, 19)}) == "cleared 1");
  CHECK(run(passes, 21, 310, {rank(0, 19), rank(1, 19)}).empty());
  const auto late = passes.update(320 * kOneSecond, {rank(0, 19), rank(1, 19)});
  REQUIRE(late.size() == 1);
  CHECK_FALSE(late[0].early);
}
