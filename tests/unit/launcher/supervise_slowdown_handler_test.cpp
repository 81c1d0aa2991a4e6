// What a slowdown and a silence of the steps cause: a line, an event, an entry in run.json, a capture.
#include "launcher/capture/capture_runner.h"
#include "launcher/supervise/handlers/slowdown_handler.h"
#include "report/speed/wording.h"
#include "tests/unit/launcher/job_scene.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <set>

using namespace xpurun;
using namespace xpurun::launcher;
using model::Span;
using model::Stage;

namespace {

// Two ranks that make the same steps by the clock of the loop.
struct SlowdownScene : test::JobScene {
  std::vector<std::string> lines;
  std::vector<std::string> captures;
  bool recorded = true;
  std::set<base::Rank> living{0, 1};
  int looks = 0;  // for a stall
  int judgements = 0;
  bool capture_begins = true;
  std::optional<SlowdownHandler> handler;

  explicit SlowdownScene(double capture_s = 10) {
    options.slow_threshold = 0.2;
    options.slow_capture_s = capture_s;
    options.hang_timeout_s = 600;
    handler.emplace(
        loop, journal, options,
        SlowdownHandler::Hooks{.slower = [this](const std::string& s, const model::RankSet&) { tell(s); },
                               .say = [this](const std::string& s) { lines.push_back(s); },
                               .recorded = [this] { return recorded; },
                               .lives = [this](base::Rank rank) { return living.contains(rank); },
                               .capture =
                                   [this](double seconds, std::string_view reason) {
                                     captures.push_back(fmt::format("{} {:.0f}", reason, seconds));
                                     return capture_begins;
                                   },
                               .look_for_stall = [this] { ++looks; },
                               .judge = [this] { ++judgements; }});
    handler->watch().gpu_used();
  }
  void steps(int count, double step_s) {
    for (int i = 0; i < count; ++i) {
      const base::MonoNs begin = loop.now();
      run_for(step_s);
      const int64_t third = (loop.now() - begin) / 3;
      const std::array spans{
          Span{.begin_ns = begin, .duration_ns = third, .stage = Stage::forward, .thread = 5},
          Span{.begin_ns = begin + third, .duration_ns = third, .stage = Stage::backward, .thread = 5},
          Span{.begin_ns = begin + 2 * third, .duration_ns = third, .stage = Stage::optimizer, .thread = 5}};
      handler->add(0, 1, spans, {});
      handler->add(1, 1, spans, {});
    }
  }
};

}  // namespace

TEST_CASE("slowdown handler: a slowdown is told, recorded and captured once") {
  SlowdownScene s;
  s.steps(200, 0.1);
  CHECK(s.lines.empty());
  const double slow_since = s.now_s();
  s.steps(100, 0.13);
  REQUIRE(s.lines.size() == 1);
  CHECK(s.lines[0].find("30 % slower") != std::string::npos);
  CHECK(s.told() == s.lines);
  REQUIRE(s.captures.size() == 1);
  CHECK(s.captures[0] == fmt::format("{} 10", kSlowReason));
  const auto& known = s.journal.manifest().slowdowns;
  REQUIRE(known.size() == 1);
  CHECK(known[0].share == doctest::Approx(0.3).epsilon(0.1));
  CHECK(known[0].at_s > slow_since);
  CHECK(known[0].at_s < slow_since + 20 * 0.13);
  // The clock time of the first slow step, not of its detection.
  CHECK(known[0].wall_ns < base::wall_ns());
  CHECK(known[0].cleared_s == -1);
  const double fast_since = s.now_s();
  s.steps(100, 0.1);
  REQUIRE(known.size() == 1);
  CHECK(known[0].cleared_s > fast_since);
  CHECK(known[0].cleared_s < fast_since + 5);
  CHECK(known[0].cleared_step == doctest::Approx(300).epsilon(0.01));
  CHECK(s.lines.size() == 1);
}

TEST_CASE("slowdown handler: a silence is captured, and told if the capture has begun") {
  SlowdownScene s;
  s.steps(100, 0.1);
  const int64_t before_ns = base::wall_ns();
  s.run_for(8);
  REQUIRE(s.captures.size() == 1);
  CHECK(s.captures[0] == fmt::format("{} 10", kSilenceReason));
  REQUIRE(s.lines.size() == 1);
  // The loop of the steps may be over: the line says when the last one ended.
  const std::string clock = s.lines[0].substr(s.lines[0].find(" UTC") - 8, 12);
  CHECK(s.lines[0] == "the last step ended 5.1 s ago, at " + clock +
                          "; steps usually take 100 ms; the next 10 s are captured");
  // The clock of the scene is not that of the host, which goes on by some milliseconds meanwhile.
  const bool is_when = clock == report::time_of_day(before_ns - base::s_to_ns(5.1)) ||
                       clock == report::time_of_day(base::wall_ns() - base::s_to_ns(5.1));
  CHECK(is_when);
  CHECK(s.told().empty());
  CHECK(s.journal.manifest().slowdowns.empty());

  SlowdownScene busy;
  busy.capture_begins = false;
  busy.steps(100, 0.1);
  busy.run_for(8);
  CHECK(busy.captures.size() == 1);
  CHECK(busy.lines.empty());
}

TEST_CASE("slowdown handler: no silence and no capture once all ranks that made steps have ended") {
  SlowdownScene s;
  s.steps(100, 0.1);
  s.living = {7};  // made no step
  s.run_for(20);
  CHECK(s.captures.empty());
  CHECK(s.lines.empty());
  CHECK(s.looks == 0);

  // One that lives on may wait for the others.
  SlowdownScene one;
  one.steps(100, 0.1);
  one.living = {1};
  one.run_for(8);
  CHECK(one.lines.size() == 1);

  // A capture that waits for the end of another one.
  SlowdownScene slow;
  slow.steps(200, 0.1);
  slow.capture_begins = false;
  slow.steps(40, 0.2);
  const size_t tried = slow.captures.size();
  slow.living = {};
  slow.run_for(10);
  CHECK(slow.captures.size() == tried);
}

TEST_CASE("slowdown handler: a silence that outlasts its capture is looked at until a stall is open") {
  SlowdownScene s;
  s.steps(100, 0.1);
  s.run_for(14);
  CHECK(s.looks == 0);  // the capture goes on
  s.run_for(4);
  CHECK(s.looks > 0);
  s.journal.manifest().stalls.push_back({.n = 1, .early = true});
  const int looked = s.looks;
  s.run_for(10);
  CHECK(s.looks == looked);

  SlowdownScene passed;
  passed.steps(100, 0.1);
  passed.run_for(8);
  passed.steps(1, 0.1);
  passed.run_for(4);
  CHECK(passed.looks == 0);
}

TEST_CASE("slowdown handler: a rank that keeps the others waiting is an event with that rank") {
  SlowdownScene s;
  s.steps(30, 0.1);
  s.handler->found_slow_rank(1, 0.4);
  CHECK(s.told() == std::vector<std::string>{"rank 1 keeps the others waiting for 40 % of each step"});
  CHECK(s.handler->slow_ranks() == model::RankSet{1});
  REQUIRE(s.lines.size() == 1);
  CHECK(s.lines[0] == "rank 1 keeps the others waiting for 40 % of each step; the next 10 s are captured");
}

namespace {

model::Verdict slow_verdict(base::Rank rank) {
  model::Verdict v{.id = "slow.rank", .kind = model::VerdictKind::slow, .ranks = {rank}};
  v.headline = fmt::format("rank {} costs 40 % of every step (54 ms), in augment (train.py:6)", rank);
  return v;
}

const std::string kAlarm =
    "rank 1 keeps the others waiting for 40 % of each step; the next 10 s are captured";

}  // namespace

TEST_CASE("slowdown handler: what was said of a rank is confirmed with the place, and ends") {
  SlowdownScene s;
  s.steps(30, 0.1);
  s.handler->captured();  // of a silence: nothing was said of a rank
  CHECK(s.judgements == 0);
  s.handler->found_slow_rank(1, 0.4);
  s.handler->captured();
  CHECK(s.judgements == 1);
  s.handler->judged(slow_verdict(1));
  s.handler->no_longer_slow(1);
  s.handler->ended({});
  REQUIRE(s.journal.manifest().awaited_ranks.size() == 1);
  CHECK(s.journal.manifest().awaited_ranks[0].rank == 1);
  CHECK(s.journal.manifest().awaited_ranks[0].share == doctest::Approx(0.4));
  CHECK(s.journal.manifest().awaited_ranks[0].cleared_s >= 0);
  CHECK(s.lines == std::vector<std::string>{
                       kAlarm, "confirmed: rank 1 costs 40 % of every step (54 ms), in augment (train.py:6)",
                       "rank 1 no longer keeps the others waiting"});
  CHECK(s.handler->slow_ranks().empty());
}

TEST_CASE("slowdown handler: what was said of a rank by chance is taken back") {
  SlowdownScene s;
  s.steps(30, 0.1);
  s.handler->found_slow_rank(1, 0.4);
  SUBCASE("after the capture") {
    s.handler->captured();
    s.handler->judged({});
    CHECK(s.lines.size() == 1);  // more steps may show it
    s.run_for(SlowdownHandler::kFirstAgainS + 1);
    CHECK(s.judgements == 2);
    s.handler->judged({});
    s.run_for(SlowdownHandler::kFirstAgainS + 1);
    CHECK(s.judgements == 2);  // after a pause that grows
    s.handler->no_longer_slow(1);
    CHECK(s.lines.back() == "rank 1 no longer keeps the others waiting");
    s.run_for(100);
    CHECK(s.judgements == 2);
    return;
  }
  SUBCASE("another rank is slow") {
    s.handler->captured();
    s.handler->judged(slow_verdict(0));
    CHECK(s.lines.back() == "not rank 1: rank 0 costs 40 % of every step (54 ms), in augment (train.py:6)");
    CHECK(s.handler->slow_ranks() == model::RankSet{0});
  }
  SUBCASE("at the end of the job, before the capture is over") {
    s.handler->ended({});
    CHECK(s.lines.back() == "not confirmed: the steps of the whole run do not show that rank 1 is slow");
    CHECK(s.journal.manifest().awaited_ranks.back().cleared_s >= 0);
  }
  SUBCASE("the verdict on the job names the rank, or is none on its steps") {
    s.handler->ended(slow_verdict(1));
    s.handler->ended({.kind = model::VerdictKind::crash});
    CHECK(s.lines.size() == 1);
    return;
  }
  CHECK(s.lines.size() == 2);
  // Not again at once.
  s.handler->found_slow_rank(1, 0.4);
  CHECK(s.lines.size() == 2);
  // A slowdown of the job is told and captured all the same.
  s.steps(200, 0.1);
  s.steps(100, 0.13);
  CHECK(s.lines.size() == 3);
  CHECK(s.captures.size() == 2);
}

TEST_CASE("slowdown handler: the capture of a slowdown names the rank") {
  SlowdownScene s;
  s.steps(200, 0.1);
  s.steps(100, 0.13);
  REQUIRE(s.captures.size() == 1);
  s.handler->captured();
  CHECK(s.judgements == 1);
  SUBCASE("at once") {
    s.handler->judged(slow_verdict(1));
  }
  SUBCASE("when more steps show the rank") {
    s.handler->judged({});
    s.steps(static_cast<int>(SlowdownHandler::kFirstAgainS / 0.13) + 10, 0.13);
    CHECK(s.judgements == 2);
    s.handler->judged(slow_verdict(1));
  }
  CHECK(s.lines.back() == "confirmed: rank 1 costs 40 % of every step (54 ms), in augment (train.py:6)");
  CHECK(s.told().back() == "rank 1 costs 40 % of every step (54 ms), in augment (train.py:6)");
  CHECK(s.handler->slow_ranks() == model::RankSet{1});
  s.handler->captured();
  s.handler->found_slow_rank(1, 0.4);  // is known
  CHECK(s.judgements <= 2);
  CHECK(s.lines.size() == 2);
  s.steps(100, 0.1);
  CHECK(s.lines.back() == "rank 1 no longer keeps the others waiting");
  CHECK(s.handler->slow_ranks().empty());
}

TEST_CASE(
    "slowdown handler: a rank that keeps the others waiting during a slowdown is judged by its capture") {
  SlowdownScene s;
  s.steps(200, 0.1);
  s.steps(100, 0.13);
  s.handler->captured();
  s.handler->judged({});
  s.handler->found_slow_rank(1, 0.4);
  CHECK(s.lines.back() == "rank 1 keeps the others waiting for 40 % of each step");
  CHECK(s.captures.size() == 1);
  CHECK(s.judgements == 2);
  s.handler->judged(slow_verdict(1));
  CHECK(s.lines.back() == "confirmed: rank 1 costs 40 % of every step (54 ms), in augment (train.py:6)");
}

TEST_CASE("slowdown handler: where no steps are known, a slow rank without a capture is not confirmed") {
  SlowdownScene s;
  s.handler->add(0, 1, {}, {});
  s.handler->found_slow_rank(1, 0.4);
  CHECK(s.journal.manifest().awaited_ranks.back().cleared_s == -1);
  s.handler->ended({});
  CHECK(s.lines.back() ==
        "not confirmed: no capture shows what rank 1 does longer than the others, and no steps are known");
}

TEST_CASE("slowdown handler: a small slowdown is captured once and not told") {
  SlowdownScene s;
  s.steps(200, 0.1);
  s.steps(100, 0.106);
  CHECK(s.captures.empty());
  s.steps(100, 0.115);
  CHECK(s.captures == std::vector<std::string>{fmt::format("{} 10", kSlowReason)});
  CHECK(s.lines.empty());
  CHECK(s.told().empty());
  CHECK(s.journal.manifest().slowdowns.empty());
  // The looks that follow find the rank.
  s.handler->found_slow_rank(1, 0.1);
  CHECK(s.captures.size() == 1);
  CHECK(s.lines == std::vector<std::string>{"rank 1 keeps the others waiting for 10 % of each step"});
}

TEST_CASE("slowdown handler: a slowdown during a capture is captured after it") {
  SlowdownScene s;
  s.steps(200, 0.1);
  s.capture_begins = false;
  s.steps(40, 0.2);
  CHECK(s.lines.size() == 1);
  const size_t tried = s.captures.size();
  CHECK(tried > 1);
  s.capture_begins = true;
  s.steps(20, 0.2);
  CHECK(s.captures.size() == tried + 1);
  s.steps(100, 0.2);
  CHECK(s.captures.size() == tried + 1);

  // Nothing is left to capture.
  SlowdownScene over;
  over.steps(200, 0.1);
  over.capture_begins = false;
  over.steps(20, 0.2);
  over.steps(60, 0.1);
  const size_t before = over.captures.size();
  over.capture_begins = true;
  over.steps(100, 0.1);
  CHECK(over.captures.size() == before);
}

TEST_CASE("slowdown handler: no silence while steps are not seen, during a stall or without captures") {
  SlowdownScene blind;
  blind.steps(100, 0.1);
  blind.recorded = false;
  blind.run_for(30);
  CHECK(blind.captures.empty());

  SlowdownScene stalled;
  stalled.steps(100, 0.1);
  stalled.journal.manifest().stalls.emplace_back();
  stalled.run_for(30);
  CHECK(stalled.captures.empty());

  SlowdownScene off(0);
  off.steps(100, 0.1);
  off.run_for(30);
  CHECK(off.captures.empty());
}

TEST_CASE("slowdown handler: a capture as long as some steps take") {
  SlowdownScene s(0);
  s.options.slow_capture_steps = 30;
  s.steps(200, 0.1);
  s.steps(100, 0.13);
  REQUIRE(s.captures.size() == 1);
  // 30 of the latest steps, of 0.1 to 0.13 s.
  const bool as_long =
      s.captures[0] == fmt::format("{} 3", kSlowReason) || s.captures[0] == fmt::format("{} 4", kSlowReason);
  CHECK(as_long);
}
