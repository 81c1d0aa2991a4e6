#include "report/profile/profile.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace xpurun;
using namespace xpurun::report;

namespace {

// Rank 0 and 1 compute; rank 1 also loads data for half of its time.
Profile sample() {
  Profile p{.about = "latest", .interval_s = 0.01, .seconds = 2};
  p.frames = {{"main", "/job/train.py", 9},
              {"step", "/job/train.py", 20},
              {"step", "/job/train.py", 21},
              {"load", "/job/data.py", 5}};
  p.tracks.push_back({.rank = 0, .pid = 10, .thread = "MainThread", .stacks = {{{0, 1}, 60}, {{0, 2}, 40}}});
  p.tracks.push_back({.rank = 1, .pid = 11, .thread = "MainThread", .stacks = {{{0, 1}, 50}, {{0, 3}, 50}}});
  return p;
}

bool profile_has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("functions of a profile") {
  const auto functions = functions_of(sample());
  REQUIRE(functions.size() == 3);
  CHECK(functions[0].function == "step");
  CHECK(functions[0].self == 150);
  CHECK(functions[2].function == "main");
  CHECK(functions[2].self == 0);
  CHECK(functions[2].total == 200);
  CHECK(functions_of(sample(), {0}).size() == 2);

  SUBCASE("a recursive function counts once per sample") {
    Profile p = sample();
    p.tracks = {{.pid = 1, .thread = "x", .stacks = {{{1, 1, 2}, 7}}}};
    CHECK(functions_of(p)[0].total == 7);
    CHECK(functions_of(p)[0].self == 7);
  }
}

TEST_CASE("a profile as text") {
  Profile p = sample();
  p.torn = 3;
  const std::string text = profile_text(p, {1}, 80);
  CHECK(profile_has(text, "Profile of 2 ranks: 200 samples in 2.0 s, 100 a second, 3 torn and left out."));
  CHECK(profile_has(text, "  75.0%   75.0%  step (train.py)\n"));
  CHECK(profile_has(text, "Ranks 1 compared with ranks 0, by self time:"));
  CHECK(profile_has(text, " +50.0%   50.0%    0.0%  load (data.py)\n"));
  CHECK(profile_has(text, " -50.0%   50.0%  100.0%  step (train.py)\n"));
  CHECK_FALSE(profile_has(profile_text(p, {}, 80), "compared"));
  CHECK(profile_has(profile_text(Profile{.about = "pid 1"}, {}, 80), "Profile of pid 1: 0 samples"));
}

TEST_CASE("ranks that spend as long in a function, in different lines of it") {
  Profile p = sample();
  p.tracks[1].stacks = {{{0, 1}, 10}, {{0, 2}, 90}};
  const std::string text = profile_text(p, {1}, 80);
  CHECK(profile_has(text, " +50.0%   90.0%   40.0%  step (train.py:21)\n"));
  CHECK(profile_has(text, " -50.0%   10.0%   60.0%  step (train.py:20)\n"));
  CHECK_FALSE(profile_has(text.substr(text.find("compared with")), "step (train.py)\n"));
  p.tracks[1].stacks = p.tracks[0].stacks;
  CHECK(profile_has(profile_text(p, {1}, 80), "no function differs by 1 % of the samples"));
}

TEST_CASE("lines of one function are one frame in folded stacks, separate frames for speedscope") {
  CHECK(profile_has(profile_folded(sample()), "rank 0 / MainThread;main (train.py);step (train.py) 100\n"));
  const auto scope = nlohmann::json::parse(profile_speedscope(sample()));
  CHECK(scope["profiles"].size() == 2);
  CHECK(scope["profiles"][0]["weights"].size() == 2);
  CHECK(scope["profiles"][0]["endValue"] == doctest::Approx(1.0));
  CHECK(scope["shared"]["frames"][2]["line"] == 21);
}

TEST_CASE("the flame graph of a profile") {
  const std::string svg = profile_svg(sample());
  CHECK(profile_has(svg, "width is samples"));
  CHECK(profile_has(svg, "load (data.py)\n50 samples, 25.0 % of this panel, rank 1"));
  CHECK(profile_has(profile_svg(Profile{.about = "<pid>"}), "&lt;pid&gt;"));
  CHECK_FALSE(profile_has(svg, "compared with"));
}

TEST_CASE("ranks compared: two flame graphs coloured by the difference, two profiles of speedscope") {
  const std::string svg = profile_svg(sample(), {1});
  CHECK(profile_has(svg, ">rank 1: 100 samples<"));
  CHECK(profile_has(svg, ">rank 0: 100 samples<"));
  CHECK(profile_has(svg,
                    "load (data.py)\n50 samples, 50.0 % of this panel, rank 1\n"
                    "+50.0 % of the time compared with rank 0"));
  CHECK(profile_has(svg,
                    "step (train.py)\n100 samples, 100.0 % of this panel, rank 0\n"
                    "+50.0 % of the time compared with rank 1"));
  CHECK(profile_has(svg, R"(class="f up3 )"));
  CHECK(profile_has(svg, R"(class="f dn3 )"));
  CHECK(profile_has(svg, "a larger share of the time than in the other group"));
  const auto scope = nlohmann::json::parse(profile_speedscope(sample(), {1}));
  REQUIRE(scope["profiles"].size() == 4);
  CHECK(scope["profiles"][0]["name"] == "rank 1");
  CHECK(scope["profiles"][1]["name"] == "rank 0");
  CHECK(scope["profiles"][0]["endValue"] == doctest::Approx(1.0));
}
