#include "commands/selftest/trial_text.h"
#include "common/base/strings.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

Trial a_right_one() {
  const Injection* injection = find_injection("nested-groups");
  REQUIRE(injection != nullptr);
  Trial out{.injection = injection,
            .outcome = TrialOutcome::right,
            .expected = {.ids = {"hang.stuck"},
                         .ranks = {1},
                         .places = {{.function = "recompute_activations", .line = 1}}},
            .seconds = 3.25};
  out.given.emplace();
  out.given->id = "hang.stuck";
  out.given->ranks = {1};
  out.given->where.function = "recompute_activations";
  return out;
}

Trial a_wrong_one() {
  Trial out = a_right_one();
  out.outcome = TrialOutcome::wrong;
  out.given->ranks = {0, 1, 2};
  out.given->sentence =
      "hang: all 3 ranks have waited in all_reduce (collective_faults.py:97) for 3 s\x1b[2J";
  out.differences = {"ranks 0-2 instead of rank 1"};
  return out;
}

Trial a_skipped_one() {
  return {.injection = find_injection("cuda-oom"), .reason = "on GPUs only (--gpu)"};
}

}  // namespace

TEST_CASE("selftest: the table fits the terminal") {
  for (const size_t columns : {40, 80, 100}) {
    const std::string text = trial_heading(columns) + trial_text(a_right_one(), columns, Ink::plain()) +
                             trial_text(a_wrong_one(), columns, Ink::plain()) +
                             trial_text(a_skipped_one(), columns, Ink::plain()) +
                             trial_summary({a_right_one(), a_wrong_one()}, columns, Ink::plain());
    for (const std::string_view line : base::split(text, '\n')) {
      CHECK_MESSAGE(base::display_width(line) <= columns, line);
    }
    for (const char* word : {"nested-groups", "hang, rank 1,", "3.2", "hang, ranks 0-2",
                             "ranks 0-2 instead of rank 1", "on GPUs only (--gpu)", "1 right", "1 wrong"}) {
      CHECK_MESSAGE(text.find(word) != std::string::npos, word);
    }
    CHECK(text.find('\x1b') == std::string::npos);
  }
}

TEST_CASE("selftest: a row at 80 columns") {
  CHECK(trial_heading(80) ==
        "RESULT  INJECTION           EXPECTED                    GIVEN            SECONDS\n");
  CHECK(trial_text(a_skipped_one(), 80, Ink::plain()) ==
        "skipped cuda-oom            on GPUs only (--gpu)\n");
}

TEST_CASE("selftest: right only if there were trials and none is wrong") {
  CHECK(all_right({a_right_one(), a_skipped_one()}));
  CHECK(!all_right({a_right_one(), a_wrong_one()}));
  CHECK(!all_right({a_skipped_one()}));
}

TEST_CASE("selftest: JSON") {
  TrialSettings settings;
  settings.host.torch = "2.11.0";
  const auto j = to_json({a_right_one(), a_wrong_one(), a_skipped_one()}, settings);
  CHECK(j["schema"] == "xpurun.selftest/1");
  CHECK(j["ok"] == false);
  CHECK(j["trials"][0]["seconds"] == 3.25);
  CHECK(j["trials"][0]["expected"]["ranks"] == std::vector<int>{1});
  CHECK(j["trials"][1]["differences"][0] == "ranks 0-2 instead of rank 1");
  CHECK(j["trials"][2]["reason"] == "on GPUs only (--gpu)");
}
