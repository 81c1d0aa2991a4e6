// The samples of the host memory in tables and sentences.
#include "report/diagnosis/memory/held.h"
#include "report/diagnosis/memory/memory_words.h"
#include "report/memory/memory_report.h"
#include "report/run/findings.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace xpurun;
using namespace xpurun::report;
using model::LookReason;
using model::MemoryCategory;
using model::MemoryLook;

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

MemoryLook heap_of(base::Rank rank, int64_t leaked, int64_t grown) {
  MemoryLook out;
  out.rank = rank;
  out.why = LookReason::heap;
  out.wall_ns = 5;
  out.window_us = 120'000'000;
  out.places = {
      {.file = "/usr/lib/python3/dist-packages/numpy/core/numeric.py", .line = 205, .function = "ones"},
      {.file = "/home/u/train.py", .line = 55, .function = "append_loss"},
      {.file = "libheat.so", .line = 0, .function = "grow"}};
  const auto add = [&](int64_t bytes, int64_t growth, std::vector<uint32_t> site) {
    model::MemoryHolder holder;
    holder.device = "host";
    holder.category = MemoryCategory::heap;
    holder.bytes = bytes;
    holder.count = 3;
    holder.grown = growth;
    holder.site = std::move(site);
    out.holders.push_back(std::move(holder));
  };
  add(leaked, grown, {0, 1});
  add(100 * kMiB, 0, {2});
  out.devices.push_back({.name = "host", .allocated = leaked + 100 * kMiB});
  return out;
}

}  // namespace

TEST_CASE("host memory: which line holds it, beside the other ranks") {
  const std::vector<MemoryLook> looks{heap_of(0, 2 * kMiB, 0), heap_of(1, 3000 * kMiB, 0),
                                      heap_of(2, 4 * kMiB, 0)};
  CHECK(heap_words(looks, 1) ==
        std::vector<std::string>{
            "rank 1 holds 2.9 GiB that were allocated at train.py:55 (append_loss); the most "
            "that one of ranks 0,2 holds of this is 4.0 MiB"});
  CHECK(heap_words({looks[1]}, 1).front() ==
        "rank 1 holds 2.9 GiB that were allocated at train.py:55 (append_loss)");
  CHECK(heap_words(looks, 0).front().starts_with(
      "rank 0 holds 100 MiB that were allocated at libheat.so (grow)"));
  CHECK(heap_words(looks, 7).empty());
  // What the program has imported, by a line of its own.
  MemoryLook imported = heap_of(1, 3000 * kMiB, 0);
  imported.places.push_back({.file = "<frozen importlib._bootstrap>", .line = 1, .function = "_load"});
  imported.holders[0].site.insert(imported.holders[0].site.begin(),
                                  static_cast<uint32_t>(imported.places.size() - 1));
  CHECK(heap_words({imported}, 1).empty());
  CHECK_FALSE(held_by_line({imported}, 1).present());
  CHECK(held_by_line({looks[1]}, 1).present());
}

TEST_CASE("host memory: growth by the step or by the minute") {
  MemoryLook look = heap_of(1, 300 * kMiB, 62 * kMiB);
  CHECK(grower_words({look}, 1, false) ==
        std::vector<std::string>{"rank 1: 31.0 MiB a minute in train.py:55 (append_loss)"});
  look.steps = 20;
  CHECK(grower_words({look}, 1, false) ==
        std::vector<std::string>{"rank 1: 3.1 MiB a step in train.py:55 (append_loss)"});
  CHECK(grower_words({look}, 1, true).empty());
  look.window_us = 0;  // too short to say
  CHECK(grower_words({look}, 1, false).empty());
  CHECK(grower_words({heap_of(1, 300 * kMiB, kMiB / 2)}, 1, false).empty());
}

TEST_CASE("host memory: much that grew in many steps is told of a job that ended well") {
  MemoryLook look = heap_of(1, 300 * kMiB, 90 * kMiB);
  look.steps = 60;
  CHECK(gathering_ranks({heap_of(0, 300 * kMiB, 90 * kMiB), look}) == model::RankSet{1});
  RunReport report;
  report.memory = {look};
  report.run.processes = {{.role = model::ProcessRole::rank, .rank = 0},
                          {.role = model::ProcessRole::rank, .rank = 1}};
  const auto findings = find_findings(report);
  const auto growth = std::find_if(findings.begin(), findings.end(),
                                   [](const Finding& f) { return f.id == "memory.growth"; });
  REQUIRE(growth != findings.end());
  CHECK(growth->title == "The host memory of rank 1 grew");
  CHECK(growth->evidence == std::vector<std::string>{"rank 1: 1.5 MiB a step in train.py:55 (append_loss)"});
  look = heap_of(1, 300 * kMiB, 60 * kMiB);
  look.steps = 60;
  CHECK(gathering_ranks({look}).empty());
}

TEST_CASE("host memory: the line of what grew, else of most") {
  MemoryLook look = heap_of(1, 300 * kMiB, 62 * kMiB);
  look.steps = 20;
  model::HeldMemory held = held_by_line({look}, 1);
  CHECK(held.where.file == "/home/u/train.py");
  CHECK(held.where.line == 55);
  CHECK(held.bytes == 300 * kMiB);
  CHECK(held.grown_a_step == 62 * kMiB / 20);
  const model::ProcessRecord rank{.rss_bytes = 500 * kMiB};
  CHECK(held_by_line_words(rank, held) ==
        "; it had 500 MiB in RAM, 300 MiB of them allocated at append_loss "
        "(train.py:55), 3.1 MiB more in each step");
  held = held_by_line({heap_of(1, 300 * kMiB, 0)}, 1);
  CHECK(held.grown_a_step == 0);
  CHECK(held_by_line_words({}, held) == "; it held 300 MiB that were allocated at append_loss (train.py:55)");
  CHECK_FALSE(
      held_by_line({heap_of(1, 90 * kMiB, 0)}, 1).present());  // less than another place without a line
  CHECK_FALSE(held_by_line({heap_of(1, 40 * kMiB, 9 * kMiB)}, 1).present());
  CHECK_FALSE(held_by_line({look}, 0).present());
}

TEST_CASE("host memory stands beside the newest look") {
  MemoryLook first;
  first.rank = 0;
  first.why = LookReason::first;
  first.wall_ns = 1;
  first.devices.push_back({.name = "cpu", .allocated = 10});
  const std::vector<MemoryLook> looks{first, heap_of(0, 300 * kMiB, 0)};
  CHECK(last_look(looks, 0)->why == LookReason::first);
  const MemoryReport both = memory_report(looks);
  CHECK(both.looks.size() == 2);
  REQUIRE(both.holders.size() == 2);
  CHECK(both.holders[0].kind == "host");
  CHECK(both.holders[0].place == "train.py:55 (append_loss)");
  CHECK(memory_report({looks[1]}).holders.size() == 2);
  CHECK(memory_report(looks, LookReason::first).looks.size() == 1);
}
