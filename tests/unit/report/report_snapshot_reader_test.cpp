#include "common/base/os/io.h"
#include "report/snapshots/snapshot_reader.h"
#include "tests/unit/report/sample_stacks.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace xpurun;
using namespace xpurun::report;

namespace {

// A process with every field of a snapshot.
model::ProcessStacks rich() {
  model::ProcessStacks p = testing::sample_rank(2);
  p.cmdline = {"python3", "-c", "print(\"[{}]\")"};
  p.reason = "frames\": [ \\ \n}";
  p.notes = {"ü\xE2\x80\xA8", "\"frames\": ["};
  model::ThreadStack other = testing::thread({testing::native("a\"b\\", "lib\\\".so"), testing::py("f{", 3)});
  other.main = false;
  other.gil = model::GilState::waiting;
  other.comm = "\"";
  other.frames[0].pc = 0x7f0012345678;
  other.frames[0].offset = 0x678;
  p.threads.push_back(other);
  p.threads.push_back({.tid = 9, .comm = "empty"});
  return p;
}

std::string json_of(const model::ProcessStacks& p) {
  return to_json(p).dump();
}

model::ProcessStacks whole(const Snapshot& s) {
  return with_frames(s, std::vector<bool>(s.frames.size(), true));
}

}  // namespace

TEST_CASE("the fast reader gives the same result as the model's reader") {
  FramePool pool;
  for (const model::ProcessStacks& p : {rich(), testing::sample_rank(0), model::ProcessStacks()}) {
    for (int indent : {-1, 0, 3}) {
      const auto read = parse_snapshot(to_json(p).dump(indent), pool);
      REQUIRE(read);
      CHECK(json_of(whole(*read)) == json_of(p));
    }
  }
}

TEST_CASE("frames that differ in their address only are shared, others are not") {
  FramePool pool;
  model::ProcessStacks a = rich();
  model::ProcessStacks b = rich();
  b.threads[1].frames[0].pc += 0x1000;
  const auto first = parse_snapshot(json_of(a), pool);
  const auto second = parse_snapshot(json_of(b), pool);
  REQUIRE(first);
  REQUIRE(second);
  CHECK(first->frames == second->frames);
  b.threads[1].frames[0].func = "another";
  const auto third = parse_snapshot(json_of(b), pool);
  REQUIRE(third);
  CHECK(third->frames[1][0] != first->frames[1][0]);
  CHECK(third->frames[1][1] == first->frames[1][1]);
}

TEST_CASE("unusual and broken files are left to the model's reader") {
  FramePool pool;
  const std::string good = json_of(rich());
  for (size_t n = 0; n < good.size(); n += 7) {
    CHECK_FALSE(parse_snapshot(good.substr(0, n), pool));
  }
  for (const char* text :
       {"[]", "{}", "null", R"({"schema":"xpurun.stacks/1","threads":[{"frames":[1]}]})",
        R"({"schema":"xpurun.stacks/1","threads":[{"frames":{}}]})",
        R"({"schema":"xpurun.stacks/1","threads":[{"frames":[],"frames":[]}]})",
        R"({"schema":"xpurun.stacks/1","threads":[{"\u0066rames":[{"kind":"python","func":"f"}]}]})",
        R"({"schema":"xpurun.stacks/1","threads":[{"frames":[{"kind":"native","pc":"0x1\u0001"}]}]})",
        R"({"schema":"xpurun.stacks/1","threads":[{"frames":[{"kind":"native","pc":12}]}]})",
        R"({"schema":"xpurun.stacks/1","threads":[{"frames":[{"kind":7}]}]})",
        R"({"schema":"xpurun.stacks/2","threads":[]})", R"({"schema":"xpurun.stacks/1"} x)",
        R"({"schema":"xpurun.stacks/1","threads":[{"frames":[{"kind":"python" "func":"f"}]}]})"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_snapshot(text, pool));
  }
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  CHECK_FALSE(parse_snapshot(R"({"x":)" + deep + "}", pool));
}

TEST_CASE("files come in order, whichever thread reads them first") {
  REQUIRE(base::make_dirs("stream"));
  std::vector<std::string> paths;
  for (int rank = 0; rank < 300; ++rank) {
    paths.push_back("stream/rank-" + std::to_string(rank) + ".stacks.json");
    if (rank != 7) {
      REQUIRE(base::write_file_atomic(paths.back(), json_of(testing::sample_rank(rank))));
    }
  }
  SnapshotStream stream(paths);
  for (int rank = 0; rank < 300; ++rank) {
    const auto s = stream.next();
    CHECK(s.has_value() == (rank != 7));
    if (s) {
      CHECK(s->process.rank == rank);
      CHECK(json_of(whole(*s)) == json_of(testing::sample_rank(rank)));
    }
  }
  // A stream that is destroyed early ends its threads.
  SnapshotStream abandoned(paths);
  CHECK(abandoned.next());
}
