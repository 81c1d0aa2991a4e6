#include "common/base/strings.h"
#include "common/base/tr.h"
#include "launcher/output/live_status.h"
#include "launcher/output/status_text.h"
#include "launcher/output/text_block.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <initializer_list>

using namespace xpurun::launcher;

namespace {

LiveStatus eight_ranks() {
  LiveStatus s{
      .run = "r", .host = "h", .elapsed_s = 724, .hang_timeout_s = 60, .next_check_s = 2, .world_size = 8};
  for (int r = 0; r < 8; ++r) {
    s.ranks.push_back({.rank = r,
                       .pid = 100 + r,
                       .state = 'S',
                       .still_s = r == 3 ? 41.0 : 0.5,
                       .cpu_share = 1,
                       .function = "step",
                       .file = "/x/train.py",
                       .line = 12});
  }
  return s;
}

}  // namespace

TEST_CASE("the status line of a job that moves") {
  LiveStatus s = eight_ranks();
  CHECK(status_line_text(s, 90) == "xpurun 12m04s | 8 ranks | 1 of 8 ranks without progress for 41 s");
  CHECK(status_line_text(s, 60) == "12m04s | 1 of 8 ranks without progress for 41 s");
  CHECK(status_line_text(s, 40) == "1 of 8 ranks without progress for 41 s");
  CHECK(status_line_text(s, 20) == "1 of 8 ranks with...");
  s.ranks[3].still_s = 0;
  CHECK(status_line_text(s, 40) == "xpurun 12m04s | 8 ranks | all active");
  CHECK(status_line_text(s, 35) == "12m04s | 8 ranks | all active");
  s.ranks[7].alive = false;
  CHECK(status_line_text(s, 120) == "xpurun 12m04s | 7 of 8 ranks | all active");
  for (LiveRank& r : s.ranks) {
    r.alive = false;
  }
  CHECK(status_line_text(s, 120) == "xpurun 12m04s | 0 of 8 ranks | all ranks have ended");
  s.ranks.clear();
  CHECK(status_line_text(s, 120) == "xpurun 12m04s | 0 of 8 ranks | starting");
}

TEST_CASE("the status line of a job that takes steps") {
  LiveStatus s = eight_ranks();
  s.ranks[3].still_s = 0;
  s.steps = {.done = 1204, .step_s = 0.028};
  CHECK(status_line_text(s, 90) == "xpurun 12m04s | 8 ranks | step 1,204 · 28 ms");
  CHECK(status_line_text(s, 34) == "step 1,204 · 28 ms");
  s.steps.slower_share = 2;
  s.steps.slower_since = 1100;
  CHECK(status_line_text(s, 90) ==
        "xpurun 12m04s | 8 ranks | step 1,204 · 28 ms · 3.0× slower since step 1,100");
  s.steps.slower_wall_ns = 1'795'230'915'000'000'000;  // 03:15:15 UTC
  s.steps.slow_ranks = {1};
  CHECK(status_line_text(s, 120) ==
        "xpurun 12m04s | 8 ranks | step 1,204 · 28 ms · 3.0× slower since 03:15, rank 1");
  CHECK(status_line_text(s, 60) == "step 1,204 · 28 ms · 3.0× slower since 03:15, rank 1");
  CHECK(status_line_text(s, 40) == "28 ms · 3.0× slower, rank 1");
  s.steps = {.done = 9, .step_s = 0.028, .slow_ranks = {1, 2}};
  CHECK(status_line_text(s, 90) == "xpurun 12m04s | 8 ranks | step 9 · 28 ms · ranks 1-2");
  // Who stands still is more important.
  s.ranks[3].still_s = 41;
  CHECK(status_line_text(s, 90) == "xpurun 12m04s | 8 ranks | 1 of 8 ranks without progress for 41 s");
}

TEST_CASE("top marks ranks that make steps slow, and shows memory") {
  LiveStatus s = eight_ranks();
  s.steps = {.done = 1204, .step_s = 0.028, .slow_ranks = {1}};
  for (LiveRank& r : s.ranks) {
    r.step_s = 0.028;
    r.rss_bytes = int64_t{812} << 20;
  }
  const auto back = live_status_from_json(to_json(s).dump());
  REQUIRE(back);
  const std::string table = live_table(*back, 100, 0, Ink::plain());
  CHECK(table.find("RANK     PID  STATE       STILL    CPU    MEMORY     STEP  WHERE\n") !=
        std::string::npos);
  CHECK(table.find("   1!    101  moving      0.5 s   100%   812 MiB    28 ms  train.py:12 step\n") !=
        std::string::npos);
  CHECK(table.find("LATE") == std::string::npos);
}

TEST_CASE("the status line in Chinese") {
  constexpr auto kChinese = xpurun::base::Language::chinese;
  LiveStatus s = eight_ranks();
  CHECK(status_line_text(s, 90, kChinese) == "xpurun 12m04s | 8 个 rank | 1 / 8 个 rank 已 41 s 没有进展");
  for (LiveRank& r : s.ranks) {
    r.still_s = 12;
  }
  s.culprits = {5};
  CHECK(status_line_text(s, 90, kChinese) ==
        "xpurun 12m04s | 8 个 rank | 停滞 12 s / 60 s，在等 rank 5（train.py:12）");
  CHECK(status_line_text(s, 30, kChinese) == "停滞 12 s / 60 s，在等 rank 5");
}

TEST_CASE("the status line of a stall names who is waited for, never who waits") {
  LiveStatus s = eight_ranks();
  for (LiveRank& r : s.ranks) {
    r.still_s = r.rank == 3 ? 41 : 12;
  }
  CHECK(stalled_s(s) == 12);
  CHECK(status_line_text(s, 120) == "xpurun 12m04s | 8 ranks | stalled 12 s of 60 s");
  s.culprits = {5};
  CHECK(status_line_text(s, 120) ==
        "xpurun 12m04s | 8 ranks | stalled 12 s of 60 s, waiting for rank 5 (train.py:12)");
  CHECK(status_line_text(s, 64) == "12m04s | stalled 12 s of 60 s, waiting for rank 5 (train.py:12)");
  CHECK(status_line_text(s, 44) == "stalled 12 s of 60 s, waiting for rank 5");
  s.culprits = {5, 6};
  CHECK(status_line_text(s, 64) == "12m04s | stalled 12 s of 60 s, waiting for ranks 5-6");
  s.hang_timeout_s = 0;
  CHECK(status_line_text(s, 58) == "12m04s | stalled 12 s, waiting for ranks 5-6");
  SUBCASE("one rank that moves ends the stall") {
    s.ranks[0].still_s = 1;
    CHECK(stalled_s(s) == 0);
  }
  SUBCASE("of an open stall the begin counts, even if the culprit moves in a loop") {
    s.hang_timeout_s = 10;
    s.culprits = {0};
    s.ranks[0].still_s = 0;
    s.stall_s = 13;
    CHECK(stalled_s(s) == 13);
    CHECK(status_line_text(s, 90) ==
          "xpurun 12m04s | 8 ranks | stalled 13 s, waiting for rank 0 (train.py:12)");
    CHECK(live_status_from_json(to_json(s).dump())->stall_s == 13);
    s.culprits = {};
    CHECK(status_line_text(s, 90) == "xpurun 12m04s | 8 ranks | stalled 13 s");
  }
  SUBCASE("before the stall no rank that may wait is named") {
    s.culprits = {};
    s.ranks[0].still_s = 0;
    CHECK(status_line_text(s, 90) == "xpurun 12m04s | 8 ranks | 7 of 8 ranks without progress for 41 s");
    s.culprits = {0};
    CHECK(
        status_line_text(s, 100) ==
        "xpurun 12m04s | 8 ranks | 7 of 8 ranks without progress for 41 s, waiting for rank 0 (train.py:12)");
    CHECK(status_line_text(s, 70) == "7 of 8 ranks without progress for 41 s, waiting for rank 0");
  }
  SUBCASE("a short timeout") {
    s.hang_timeout_s = 4;
    s.ranks[0].still_s = 3;
    CHECK(stalled_s(s) == 3);
  }
  SUBCASE("top marks the culprits") {
    const std::string table = live_table(s, 80, 0, Ink::plain());
    CHECK(table.find("   5!") != std::string::npos);
    CHECK(table.find("   4!") == std::string::npos);
    const auto again = live_status_from_json(to_json(s).dump());
    REQUIRE(again);
    CHECK(again->culprits == s.culprits);
  }
}

TEST_CASE("a status keeps all of its fields on the way to another program") {
  LiveStatus s = eight_ranks();
  s.command = {"torchrun", "train.py"};
  s.timing = "light";
  s.trace = "traces/1";
  s.problem = "hang: x";
  s.verdict.kind = xpurun::model::VerdictKind::hang;
  s.verdict.sentence = "hang: x";
  s.steps = {.done = 12, .step_s = 0.5, .slower_share = 0.2, .slower_since = 7};
  s.gaps = {"node 1 is silent"};
  s.culprits = {1, 3, 4};
  s.ranks.resize(1);
  s.ranks[0] = {.rank = 0,
                .host = "a",
                .pid = 7,
                .state = 'D',
                .alive = false,
                .still_s = 1.5,
                .step_s = 0.25,
                .cpu_share = 0.5,
                .function = "f",
                .file = "/x/t.py",
                .line = 3,
                .flops_per_s = 1e12,
                .collectives_per_s = 20,
                .outstanding = 2,
                .last_collective = "AllReduce 812 of dp",
                .untraced_share = 0.125,
                .dropped = 9};
  s.ranks.push_back({.rank = 1, .host = "b", .still_s = 3, .where = "train.py:12 step"});
  const std::string text = to_json(s).dump();
  const auto back = live_status_from_json(text);
  REQUIRE(back);
  CHECK(to_json(*back).dump() == text);
  CHECK(back->ranks[0].dropped == 9);
  CHECK(back->ranks[1].where == "train.py:12 step");
  CHECK(back->ranks[1].cpu_share < 0);
  CHECK(back->steps.slower_since == 7);
  CHECK(back->verdict.kind == s.verdict.kind);
  for (const char* bad : {"", "[]", R"({"run":3})", R"({"ranks":{}})", R"({"ranks":[3]})"}) {
    CAPTURE(bad);
    CHECK_FALSE(live_status_from_json(bad));
  }
}

TEST_CASE("the table of top") {
  LiveStatus s = eight_ranks();
  s.problem = "hang: rank 3 \x1b[31m";
  s.ranks[5].function = "evil\x1b]0;name";
  for (size_t columns : {20, 40, 60, 80}) {
    const std::string table = live_table(s, columns, 0, Ink::plain());
    CHECK(table.find('\x1b') == std::string::npos);
    for (std::string_view line : xpurun::base::split(table, '\n')) {
      CHECK(xpurun::base::display_width(line) <= columns);
    }
  }
  const std::string all = live_table(s, 80, 24, Ink::plain());
  CHECK(all.find("   0     100  moving      0.5 s   100%  train.py:12 step\n") != std::string::npos);
  const std::string few = live_table(s, 80, 6, Ink::plain());
  CHECK(xpurun::base::split(few, '\n').size() == 7);
  CHECK(few.find("   3     103") != std::string::npos);
  CHECK(few.find("... and 6 more\n") != std::string::npos);
}

TEST_CASE("the table of top shows the line of a rank first, whatever the width") {
  LiveStatus s = eight_ranks();
  s.culprits = {3};
  s.ranks[3].function = "PrefetchingLoader.fetch_shard_from_remote_store";
  s.ranks[3].file = "/home/me/project/data_loader.py";
  s.ranks[3].line = 1234;
  s.ranks[4].function.clear();
  const std::string table = live_table(s, 80, 0, Ink::plain());
  CHECK(table.find("   3!    103  stuck") == std::string::npos);  // busy: 100 % of a core
  CHECK(table.find("   3!    103  busy         41 s   100%  data_loader.py:1234 PrefetchingLoader...\n") !=
        std::string::npos);
  CHECK(table.find("   4     104  moving      0.5 s   100%  -\n") != std::string::npos);
  const std::string narrow = live_table(s, 44, 0, Ink::plain());
  CHECK(narrow.find("   3!busy         41 s  data_loader.py:1234\n") != std::string::npos);
  CHECK(live_table(s, 36, 0, Ink::plain()).find("   3!busy         41 s  ...r.py:1234\n") !=
        std::string::npos);
  CHECK(live_table(s, 40, 0, Ink::plain()).find("   2 moving      0.5 s  train.py:12 step\n") !=
        std::string::npos);
}

TEST_CASE("states in the table of top are those of a verdict, and its order can be chosen") {
  LiveStatus s = eight_ranks();
  for (LiveRank& r : s.ranks) {
    r.still_s = 12;
    r.cpu_share = 0.01 * r.rank;
  }
  s.ranks[1].state = 'D';
  s.ranks[2].state = 'T';
  s.ranks[4].still_s = 1;
  s.ranks[6].cpu_share = 0.9;
  s.ranks[7].alive = false;
  const auto states = [&s](TableOrder order = TableOrder::fitting) {
    std::string out;
    const std::string table = live_table(s, 80, 0, Ink::plain(), order);
    for (std::string_view line : xpurun::base::split(table, '\n')) {
      if (line.starts_with("   ")) {
        out += std::string(line.substr(3, 2)) + std::string(line.substr(14, 7)) + ";";
      }
    }
    return out;
  };
  CHECK(states() == "0 still  ;1 blocked;2 stopped;3 still  ;4 moving ;5 still  ;6 busy   ;7 ended  ;");
  s.culprits = {5};
  CHECK(states() == "0 waiting;1 blocked;2 stopped;3 waiting;4 moving ;5!stuck  ;6 waiting;7 ended  ;");
  s.ranks[5].cpu_share = 1;
  CHECK(states(TableOrder::cpu).starts_with("5!busy   ;6 waiting;7 ended  ;4 moving "));
  CHECK(states(TableOrder::still).ends_with("4 moving ;"));
  CHECK(states(TableOrder::rank) == states());
}

TEST_CASE("the table of top with timing") {
  LiveStatus s = eight_ranks();
  s.ranks[0].flops_per_s = 4.125e14;
  s.ranks[0].collectives_per_s = 310;
  s.ranks[0].last_collective = "AllReduce 812 of tensor";
  s.ranks[0].untraced_share = 0.312;
  s.ranks[1].collectives_per_s = 310;
  const std::string wide = live_table(s, 120, 0, Ink::plain());
  CHECK(wide.find("CPU  TFLOP/S  COLL/S  UNTRACED  LAST COLLECTIVE       WHERE\n") != std::string::npos);
  CHECK(wide.find("100%    412.5     310       31%  AllReduce 812 of ...  train.py:12 step\n") !=
        std::string::npos);
  CHECK(wide.find("100%      0.0     310         -                        train.py:12 step\n") !=
        std::string::npos);
  CHECK(live_table(s, 80, 0, Ink::plain()).find("TFLOP") == std::string::npos);
  CHECK(live_table(eight_ranks(), 120, 0, Ink::plain()).find("TFLOP") == std::string::npos);
  const auto back = live_status_from_json(to_json(s).dump());
  REQUIRE(back);
  CHECK(back->ranks[0].last_collective == s.ranks[0].last_collective);
  CHECK(back->ranks[0].flops_per_s == s.ranks[0].flops_per_s);
  CHECK(back->ranks[0].untraced_share == s.ranks[0].untraced_share);
  CHECK(back->ranks[1].untraced_share < 0);
}

TEST_CASE("the table of top with steps of training") {
  LiveStatus s = eight_ranks();
  CHECK_FALSE(to_json(s).contains("steps"));
  CHECK_FALSE(to_json(s)["ranks"][2].contains("step_s"));
  s.steps = {.done = 4120, .step_s = 0.171};
  s.ranks[2].step_s = 0.171;
  const auto back = live_status_from_json(to_json(s).dump());
  REQUIRE(back);
  CHECK(back->ranks[2].step_s == 0.171);
  CHECK(back->ranks[1].step_s < 0);
  const std::string table = live_table(*back, 80, 6, Ink::plain());
  CHECK(table.find("\nstep 4,120 · 171 ms\n") != std::string::npos);
  CHECK(xpurun::base::split(table, '\n').size() == 7);
}

TEST_CASE("the table of top with ranks of other nodes") {
  LiveStatus s = eight_ranks();
  LiveStatus other{.host = "b", .gaps = {"no word from host c for 20 s: ranks 16-23"}};
  other.ranks.push_back(
      {.rank = 8, .pid = 7, .state = 'S', .still_s = 41, .function = "f", .file = "/a.py", .line = 3});
  other.ranks.push_back({.rank = 7, .pid = 9});
  add_other_ranks(other, s);
  REQUIRE(s.ranks.size() == 9);
  const auto back = live_status_from_json(to_json(s).dump());
  REQUIRE(back);
  const std::string table = live_table(*back, 90, 0, Ink::plain());
  CHECK(table == live_table(s, 90, 0, Ink::plain()));
  CHECK(table.find("no word from host c for 20 s: ranks 16-23\n") != std::string::npos);
  CHECK(table.find("RANK  HOST                 PID  STATE       STILL    CPU  WHERE\n") != std::string::npos);
  CHECK(table.find("   0  h                    100  moving      0.5 s   100%  train.py:12 step\n") !=
        std::string::npos);
  CHECK(table.find("   8  b                      -  still        41 s      -  a.py:3 f\n") !=
        std::string::npos);
  CHECK(live_table(*back, 50, 0, Ink::plain()).find("HOST") == std::string::npos);
}

TEST_CASE("the table of top in Chinese keeps its columns") {
  LiveStatus s = eight_ranks();
  s.problem = "hang: rank 3 stuck in load (data.py:7) for 41 s";
  s.verdict.id = "hang.stuck";
  s.verdict.kind = xpurun::model::VerdictKind::hang;
  s.verdict.ranks = {3};
  s.verdict.state = xpurun::model::RankState::stuck;
  s.verdict.sentence = s.problem;
  s.verdict.seconds = 41;
  s.culprits = {3};
  s.steps = {.done = 4120, .step_s = 0.171, .slower_share = 0.2, .slower_since = 4000};
  s.ranks[0].host = "h";
  s.ranks[1].collectives_per_s = 3;
  const auto back = live_status_from_json(to_json(s).dump());
  REQUIRE(back);
  const xpurun::base::Speaking speaking(xpurun::base::Language::chinese);
  for (const size_t columns : {40, 80, 140}) {
    const std::string table = live_table(*back, columns, 0, Ink::plain());
    CAPTURE(table);
    const auto lines = xpurun::base::split(table, '\n');
    REQUIRE(lines.size() == 13);  // title, problem, steps, heading, eight ranks, and nothing
    CHECK(lines[1].starts_with("挂起：rank 3"));
    CHECK(lines[2].starts_with("第 4,120 步 · 171 ms · 自 第 4,0"));
    const size_t where = lines[3].find("位置");
    REQUIRE(where != std::string_view::npos);
    const size_t column = xpurun::base::display_width(lines[3].substr(0, where));
    for (size_t i = 4; i < 12; ++i) {
      const size_t place = lines[i].find("train.py");
      REQUIRE(place != std::string_view::npos);
      CHECK(xpurun::base::display_width(lines[i].substr(0, place)) == column);
      CHECK(xpurun::base::display_width(lines[i]) <= columns);
    }
    CHECK(lines[7].substr(0, 5) == "   3!");
  }
}

TEST_CASE("a status survives the socket") {
  const LiveStatus s = eight_ranks();
  const auto back = live_status_from_json(to_json(s).dump());
  REQUIRE(back);
  CHECK(live_table(*back, 80, 0, Ink::plain()) == live_table(s, 80, 0, Ink::plain()));
  CHECK(back->next_check_s == 2);
  for (const char* broken :
       {"", "x", "[]", R"({"ranks":3})", R"({"ranks":[{"state":""}],"elapsed_s":"x"})"}) {
    CHECK_FALSE(live_status_from_json(broken));
  }
}

TEST_CASE("text is cut at its end") {
  CHECK(cut_end("abc", 3) == "abc");
  CHECK(cut_end("abcdef", 5) == "ab...");
  CHECK(cut_end("\xC3\xA4\xC3\xB6\xC3\xBC\xC3\x9F"
                "x",
                4) == "\xC3\xA4...");
  CHECK(cut_end("abcdef", 2) == "..");
  CHECK(cut_end("abc", 0).empty());
}

TEST_CASE("text is filled up to a number of columns") {
  CHECK(pad_end("ab", 4) == "ab  ");
  CHECK(pad_start("ab", 4) == "  ab");
  CHECK(pad_end("\u6b65", 4) == "\u6b65  ");
  CHECK(pad_start("\u6b65", 4) == "  \u6b65");
  CHECK(pad_end("abc", 2) == "abc");
}

TEST_CASE("the table of top shows steps and lateness where they are known and fit") {
  LiveStatus s = eight_ranks();
  CHECK(live_table(s, 80, 0, Ink::plain()).find("STEP") == std::string::npos);
  for (LiveRank& r : s.ranks) {
    r.step_s = 0.171;
  }
  s.ranks[3].late_s = 0.052;
  const auto back = live_status_from_json(to_json(s).dump());
  REQUIRE(back);
  CHECK(back->ranks[3].late_s == 0.052);
  CHECK(back->ranks[2].late_s < 0);
  const std::string table = live_table(*back, 80, 0, Ink::plain());
  CHECK(table.find("RANK     PID  STATE       STILL    CPU     STEP    LATE  WHERE\n") != std::string::npos);
  CHECK(table.find("171 ms   52 ms  train.py:12 step\n") != std::string::npos);
  CHECK(table.find("   2     102  moving      0.5 s   100%   171 ms       -  train.py:12 step\n") !=
        std::string::npos);
  CHECK(live_table(s, 79, 0, Ink::plain()).find("STEP") == std::string::npos);
  for (LiveRank& r : s.ranks) {
    r.host = "h";
    r.flops_per_s = 1;
  }
  CHECK(live_table(s, 97, 0, Ink::plain()).find("STEP") == std::string::npos);
  CHECK(live_table(s, 98, 0, Ink::plain()).find("STEP") != std::string::npos);
  CHECK(live_table(s, 116, 0, Ink::plain()).find("TFLOP") == std::string::npos);
  const std::string wide = live_table(s, 117, 0, Ink::plain());
  CHECK(wide.find("LATE  TFLOP/S") != std::string::npos);
}
