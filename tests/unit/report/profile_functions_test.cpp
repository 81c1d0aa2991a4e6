#include "common/base/os/io.h"
#include "report/build/capture_files.h"
#include "report/profile/captured_functions.h"
#include "report/profile/function_stacks.h"
#include "report/profile/gil_holders.h"

#include <doctest/doctest.h>

#include <random>

using namespace xpurun;
using namespace xpurun::report;

namespace {

constexpr uint32_t kTrain = 0;
constexpr uint32_t kBackward = 1;
constexpr uint32_t kFetch = 2;
constexpr uint32_t kRead = 3;
constexpr uint32_t kReadLater = 4;

// `loading` of 300 samples of each rank are in read(), the others wait or compute in backward().
Profile job(const std::vector<uint64_t>& loading) {
  Profile p{.reason = "slow", .wall_ns = 5, .interval_s = 0.02, .seconds = 6};
  p.frames = {{"train", "/job/train.py", 9},
              {"backward", "/usr/lib/python3/dist-packages/torch/autograd/__init__.py", 197},
              {"fetch", "/usr/lib/python3/dist-packages/torch/utils/data/fetch.py", 58},
              {"read", "/job/data.py", 40},
              {"read", "/job/data.py", 41}};
  for (size_t rank = 0; rank < loading.size(); ++rank) {
    ProfileTrack track{
        .rank = static_cast<base::Rank>(rank), .pid = 10, .thread = "MainThread", .stacks = {}};
    track.stacks[{kTrain, kBackward}] = 300 - loading[rank];
    track.stacks[{kTrain, kFetch, kRead}] = loading[rank] / 3;
    track.stacks[{kTrain, kFetch, kReadLater}] = loading[rank] - loading[rank] / 3;
    p.tracks.push_back(std::move(track));
  }
  return p;
}

const model::CapturedFunction& function(const model::CaptureReport& report, std::string_view name) {
  for (const model::CapturedFunction& f : report.functions) {
    if (f.function == name) {
      return f;
    }
  }
  FAIL("no function " << name);
  return report.functions.front();
}

}  // namespace

TEST_CASE("a capture names the thread that holds the GIL") {
  Profile p = job({15, 18, 12});
  p.frames.push_back({"StatsThread.aggregate", "/job/train.py", 12});
  p.frames.push_back({"dumps", "/usr/lib/python3.11/json/__init__.py", 231});
  for (const auto& [rank, samples] : {std::pair<base::Rank, uint64_t>{0, 6}, {1, 213}, {2, 2}}) {
    ProfileTrack track{.rank = rank, .pid = 20 + rank, .thread = "Thread-1", .gil_only = true, .stacks = {}};
    track.stacks[{5}] = samples - samples / 3;
    track.stacks[{5, 6}] = samples / 3;
    p.tracks[static_cast<size_t>(rank)].pid = track.pid;
    p.tracks.push_back(std::move(track));
  }
  p = *profile_from_json(profile_json(p));
  model::CaptureReport report;
  report.gil_holders = take_gil_holders(p);
  CHECK(p.tracks.size() == 3);
  REQUIRE(report.gil_holders.size() == 2);  // the third one has too little
  const model::GilHolder* holder = blamed_holder(report, {});
  REQUIRE(holder != nullptr);
  CHECK(holder_words(*holder) ==
        "the thread Thread-1 of rank 1 held Python's GIL for 71 % of the time, in StatsThread.aggregate "
        "(train.py:12)");
  CHECK(blamed_holder(report, {0}) == nullptr);
  report.gil_holders[1].share = 0.5;  // another rank's thread does so, too
  CHECK(blamed_holder(report, {1}) == nullptr);
}

TEST_CASE("a capture names the function in which a rank spends more time than the others") {
  const auto report = captured_functions(job({15, 18, 150, 12}));
  CHECK(report.samples == 1200);
  CHECK(report.ranks == model::RankSet::range(0, 3));
  CHECK(report.reason == "slow");
  const auto& read = report.functions.front();
  CHECK(read.function == "read");
  CHECK(read.ranks == model::RankSet{2});
  CHECK(read.line == 41);
  CHECK(read.ranks_own == doctest::Approx(0.5));
  CHECK(read.own == doctest::Approx(0.05));
  CHECK(read.ranks_total == doctest::Approx(0.5));
  CHECK(report.sentence == "rank 2 spends 50 % of its time in read (data.py:41), the others 5 %");
  CHECK(function(report, "fetch").ranks == model::RankSet{2});
  CHECK(function(report, "fetch").own == 0);
  CHECK(function(report, "train").total == doctest::Approx(1));
  CHECK(blamed_function(report, {2}) == &read);
  CHECK(blamed_function(report, {1}) == nullptr);
}

TEST_CASE("ranks that spend all their time in one function are told apart by its lines") {
  Profile p = job({0, 0, 0, 0});
  p.frames.push_back({"train", "/job/train.py", 88});
  for (ProfileTrack& track : p.tracks) {
    track.stacks.clear();
    track.stacks[{5}] = track.rank == 3 ? 130 : 6;
    track.stacks[{kTrain, kBackward}] = track.rank == 3 ? 170 : 294;
  }
  const auto report = captured_functions(p);
  CHECK(function(report, "backward").ranks.empty());
  const auto& line = report.functions.front();
  CHECK(line.function == "train");
  CHECK(line.line == 88);
  CHECK(line.by_line);
  CHECK(line.ranks == model::RankSet{3});
  CHECK(report.sentence == "rank 3 spends 43 % of its time in train (train.py:88), the others 2 %");
  CHECK(blamed_function(report, {3}) == &line);
}

TEST_CASE("the path of a function is the time in which the GPU of the rank had no work") {
  Profile p = job({30, 150});
  p.mono_ns = 1'000'000'000;
  for (ProfileTrack& track : p.tracks) {
    uint32_t at = 0;
    for (const auto& [stack, samples] : track.stacks) {
      for (uint64_t i = 0; i < samples; ++i) {
        track.times[stack].push_back(at);
        at += 20'000;
      }
    }
  }
  // Stacks in order: train/backward, then train/fetch/read. The GPU of rank 1 is busy in every second sample
  // of the first four seconds; that of rank 0 was not recorded.
  GpuActivity gpu{.begin_ns = 1'000'000'000, .end_ns = 5'000'000'000};
  for (int64_t at = gpu.begin_ns; at < gpu.end_ns; at += 40'000'000) {
    gpu.busy.push_back({at, at + 10'000'000});
  }
  mark_idle(p, {{1, gpu}});
  CHECK(p.tracks[0].with_gpu == 0);
  CHECK(p.tracks[1].with_gpu == 200);
  const Profile again = *profile_from_json(profile_json(p));
  CHECK(again.mono_ns == p.mono_ns);
  CHECK(again.tracks[1].times == p.tracks[1].times);
  const auto report = captured_functions(p);
  const auto& read = function(report, "read");
  CHECK(read.ranks == model::RankSet{1});
  CHECK(read.ranks_path ==
        doctest::Approx(25 / 200.0));  // 50 of its 150 samples lie in the first four seconds
  CHECK(read.path == -1);
  CHECK(function(report, "train").ranks_path == -1);
  CHECK(captured_functions(job({30, 150})).functions.front().ranks_path == -1);

  // Samples on another host's clock say nothing once profiles are one.
  Profile merged = merged_profile({job({30}), p});
  CHECK(merged.tracks.back().idle.size() == p.tracks[1].idle.size());
  CHECK(captured_functions(merged).functions.size() == report.functions.size());
}

TEST_CASE("damaged times of samples are an error") {
  Profile p = job({30});
  p.mono_ns = 5;
  p.tracks[0].times[{kTrain, kBackward}] = {1, 2, 3};
  std::string text = profile_json(p);
  CHECK(profile_from_json(text));
  const size_t at = text.find("[1,1,1]");
  REQUIRE(at != std::string::npos);
  for (const char* bad : {"[-1,1,1]", "[1,\"x\",1]", "[1,99999999999999,1]", "{\"a\":[]}"}) {
    std::string damaged = text;
    damaged.replace(at, 7, bad);
    CHECK_FALSE_MESSAGE(profile_from_json(damaged), bad);
  }
}

TEST_CASE("of two ranks, the one that waits is told last") {
  const auto report = captured_functions(job({15, 150}));
  CHECK(report.sentence ==
        "rank 1 spends 50 % of its time in read (data.py:41), the others 5 %; rank 0 waits or computes "
        "gradients 95 % of its time in train (train.py:9), the others 50 %");
  CHECK(function(report, "train").waits);
  CHECK(function(report, "backward").waits);
  CHECK_FALSE(function(report, "fetch").waits);
  CHECK(blamed_function(report, {1})->function == "read");
}

TEST_CASE("workers of a rank are compared with workers") {
  Profile p = job({15, 15, 15});
  for (base::Rank rank = 0; rank < 3; ++rank) {
    const uint64_t busy = rank == 1 ? 200 : 20;
    p.tracks.push_back({.rank = rank,
                        .pid = 20,
                        .worker = true,
                        .thread = "MainThread",
                        .stacks = {{{kFetch, kRead}, busy}, {{kFetch}, 220 - busy}}});
  }
  const auto report = captured_functions(p);
  CHECK(report.functions.front().worker);
  CHECK(report.functions.front().ranks == model::RankSet{1});
  CHECK(report.sentence ==
        "rank 1 spends 91 % of its time (that of its workers) in read (data.py:40), the others 9 %");
}

TEST_CASE("equal ranks: none stands out, whatever the noise") {
  std::mt19937 random(7);  // NOLINT: the same numbers each time
  for (int round = 0; round < 200; ++round) {
    std::vector<uint64_t> loading;
    for (size_t rank = 0; rank < 2 + static_cast<size_t>(round % 7); ++rank) {
      loading.push_back(std::binomial_distribution<uint64_t>(300, 0.3)(random));
    }
    const auto report = captured_functions(job(loading));
    CHECK(report.sentence == "no rank spends its time differently from the others");
  }
  CHECK(captured_functions(job({90})).sentence.empty());
  CHECK(captured_functions(Profile{}).functions.empty());
}

TEST_CASE("half of the ranks cannot stand out") {
  const auto report = captured_functions(job({10, 10, 150, 150}));
  CHECK(report.sentence == "no rank spends its time differently from the others");
}

TEST_CASE("a profile survives JSON, and recordings of several hosts become one") {
  Profile p = job({15, 150});
  p.about = "run";
  p.host = "h1";
  p.torn = 3;
  p.notes = {"a note"};
  p.tracks[1].worker = true;
  const auto back = profile_from_json(profile_json(p));
  REQUIRE(back);
  CHECK(profile_json(*back) == profile_json(p));
  CHECK(back->tracks[1].title() == "rank 1 worker 10 / MainThread");

  Profile other = job({15, 150});
  other.tracks[0].rank = 2;
  other.tracks[1].rank = 3;
  const Profile merged = merged_profile({job({15, 15}), std::move(other)});
  CHECK(merged.ranks() == model::RankSet::range(0, 3));
  CHECK(captured_functions(merged).functions.front().ranks == model::RankSet{3});
}

TEST_CASE("a text that is no profile is an error") {
  const std::string good = profile_json(job({1}));
  const auto broken = [&](std::string_view what, std::string_view by) {
    std::string text = good;
    text.replace(text.find(what), what.size(), by);
    return profile_from_json(text);
  };
  CHECK_FALSE(profile_from_json(""));
  CHECK_FALSE(profile_from_json("[]"));
  CHECK_FALSE(broken("xpurun.profile/1", "xpurun.profile/2"));
  CHECK(broken("[[[0,1]", "[[[0,9]").error().what ==
        "not a profile: a stack names a frame that is not there");
  CHECK_FALSE(broken("[[[0,1]", "[[[0,-1]"));
  CHECK_FALSE(broken("\"frames\"", "\"flames\""));
  CHECK_FALSE(profile_from_json(good.substr(0, good.size() / 2)));
  CHECK(broken("\"seconds\":6.0", "\"seconds\":1e300").error().what ==
        "not a profile: its times make no sense");
  CHECK_FALSE(broken("\"begin_wall_ns\":5", "\"begin_wall_ns\":-5"));
}

TEST_CASE("captures of several nodes at a time are one, by the clock of this node") {
  constexpr int64_t kSecond = 1'000'000'000;
  const auto node = [](const std::string& name, int64_t begin_ns, int64_t offset_ns, base::Rank first) {
    NodeRun out;
    out.path = name;
    out.entry.offset_ns = offset_ns;
    Profile p = job({15, 15});
    p.wall_ns = begin_ns;
    for (ProfileTrack& track : p.tracks) {
      track.rank += first;
    }
    REQUIRE(base::make_dirs(name + "/captures/1"));
    REQUIRE(base::write_file_atomic(name + "/captures/1/profile.json", profile_json(p)));
    return out;
  };
  // The clock of the second node is a minute ahead.
  JobRuns together;
  together.nodes = {node("a", 1000 * kSecond, 0, 0), node("b", 1062 * kSecond, 60 * kSecond, 2)};
  const Captures one = read_captures(together);
  REQUIRE(one.reports.size() == 1);
  CHECK(one.reports[0].ranks == model::RankSet::range(0, 3));
  CHECK(one.reports[0].dir == "captures/1");

  JobRuns apart;
  apart.nodes = {node("c", 1000 * kSecond, 0, 0), node("d", 1002 * kSecond, 60 * kSecond, 2)};
  CHECK(read_captures(apart).reports.size() == 2);

  // Those that are known to be one capture, at any time.
  const auto several = read_capture({"a/captures/1/profile.json", "d/captures/1/profile.json"});
  REQUIRE(several);
  CHECK(several->ranks == model::RankSet::range(0, 3));
  CHECK(several->notes.empty());
  const auto without = read_capture({"none/profile.json", "d/captures/1/profile.json"});
  REQUIRE(without);
  CHECK(without->ranks == model::RankSet::range(2, 3));
  CHECK(without->notes.size() == 1);
  CHECK_FALSE(read_capture({"none/profile.json", "c/profile.json"}));

  REQUIRE(base::write_file_atomic("c/captures/1/profile.json", "{}"));
  const Captures damaged = read_captures(apart);
  CHECK(damaged.reports.size() == 1);
  CHECK(damaged.notes.size() == 1);
}

TEST_CASE("the full path of a function is the stack with most samples of the ranks that stand out") {
  Profile p = job({15, 18, 150, 12});
  p.frames.push_back({"_run_code", "/usr/lib/python3.11/runpy.py", 88});
  p.frames.push_back({"Loader.next", "/job/loader.py", 7});
  const auto count = static_cast<uint32_t>(p.frames.size());
  const uint32_t start = count - 2;
  const uint32_t next = count - 1;
  for (ProfileTrack& track : p.tracks) {
    std::map<ProfileTrack::Stack, uint64_t> stacks;
    for (const auto& [stack, samples] : track.stacks) {
      ProfileTrack::Stack longer{start};
      longer.insert(longer.end(), stack.begin(), stack.end());
      // Rank 2 reads elsewhere; lines of one function are one stack.
      if (track.rank == 2 && stack.size() == 3) {
        longer.insert(longer.begin() + 2, next);
      }
      stacks[longer] += samples;
    }
    track.stacks = stacks;
  }
  const auto report = captured_functions(p);
  CHECK(function(report, "read").ranks == model::RankSet{2});
  CHECK(function(report, "read").stack ==
        "train.train > loader.Loader.next > torch.utils.data.fetch.fetch > data.read");
  CHECK(function(report, "backward").stack == "train.train > torch.autograd.backward");
  CHECK(function(report, "train").stack == "train.train");
  CHECK(function(report, "_run_code").stack.empty());
  CHECK(full_name({"f", "", 0}) == "f");
  CHECK(full_name({"nn.Module: Linear", "/usr/lib/torch/nn/modules/module.py", 1}) == "nn.Module: Linear");
  CHECK(full_name({"step", "/usr/lib/python3.11/json/__init__.py", 1}) == "json.step");
  // A recursion counts once, with its outermost call.
  Profile deep = job({0, 0});
  for (ProfileTrack& track : deep.tracks) {
    track.stacks = {{{kTrain, kRead, kRead, kReadLater}, 100}};
  }
  CHECK(function(captured_functions(deep), "read").stack == "train.train > data.read");
}

TEST_CASE("a capture does not compare ranks of other roles") {
  const Profile p = job({15, 15, 15, 15, 150});
  CHECK(function(captured_functions(p), "read").ranks == model::RankSet{4});
  RankRoles roles;
  for (base::Rank r = 0; r < 5; ++r) {
    roles.add(r, {{r < 4 ? 1U : 2U, 1}});
  }
  CHECK(function(captured_functions(p, roles), "read").ranks.empty());
  roles.add(4, {{1, 1}});
  CHECK(function(captured_functions(p, roles), "read").ranks == model::RankSet{4});
}
