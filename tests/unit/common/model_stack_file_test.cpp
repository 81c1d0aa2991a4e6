// The table of frames in a stacks file.
#include "common/model/stacks/frame_columns.h"
#include "common/model/stacks/stack_file.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace xpurun::model;
using nlohmann::json;

namespace {

Frame native(const std::string& func, uint64_t pc) {
  return {.func = func,
          .full_func = func + "(int)",
          .module = "libtorch_cpu.so",
          .build_id = "0123abcd",
          .pc = pc,
          .offset = pc - 0x7f0000000000};
}

// A process with texts and numbers that are difficult to write.
ProcessStacks rich() {
  ProcessStacks p;
  p.host = "a";
  p.pid = 42;
  p.rank = 2;
  p.role = ProcessRole::rank;
  p.reason = "frames\": [ \\ \n}";
  p.notes = {"ü\xE2\x80\xA8", "\"frames\": ["};
  const Frame wait = native("wait", 0x7f0000001234);
  p.threads.push_back({.tid = 42, .comm = "python3", .main = true});
  p.threads[0].frames = {
      wait,
      {.kind = FrameKind::python,
       .func = "step \"0 1\"",
       .file = "/x/t.py",
       .line = 3,
       .column = 9,
       .end_line = 4,
       .end_column = 12,
       .callee = "time.sleep",
       .locals = {{.name = "x", .value = "3"}, {.name = "a", .value = "'b'"}},
       .entry = true},
      {.func = "[unknown code]", .pc = 0xffffffffff600000},
      {.func = "main", .module = "a.out", .pc = 0x401000, .offset = 0x401000, .eval = true},
      {.kind = FrameKind::marker, .func = "why"}};
  p.threads.push_back({.tid = 43, .comm = "\"", .gil = GilState::waiting});
  p.threads[1].frames = {wait, native("wait", 0x7f0000001238), wait};
  p.threads.push_back({.tid = 44, .comm = "empty"});
  return p;
}

json file_of(const ProcessStacks& p) {
  return json::parse(stacks_file(p));
}

// Whether `change` makes the file of rich() unreadable.
bool is_refused(void (*change)(json&)) {
  json j = file_of(rich());
  REQUIRE(compact_stacks_from_json(j));
  change(j);
  return !compact_stacks_from_json(j);
}

}  // namespace

TEST_CASE("a stacks file preserves every frame") {
  for (const ProcessStacks& p : {rich(), ProcessStacks()}) {
    const auto read = process_stacks_from_json(file_of(p));
    REQUIRE(read);
    CHECK(to_json(*read).dump(1) == to_json(p).dump(1));
  }
}

TEST_CASE("each distinct frame is written once") {
  const CompactStacks s = compact(rich());
  CHECK(s.frames.size() == 6);
  CHECK(s.threads[1] == std::vector<uint32_t>{0, 5, 0});
  CHECK(s.threads[2].empty());
  const json j = file_of(rich());
  CHECK(j["threads"][1]["frames"] == "0 5 0");
  CHECK(j["frames"]["line"] == "0 3 0 0 0 0");
  CHECK(j["frames"]["locals"].size() == 1);
  CHECK(j["strings"][0] == "");
  // No frame was inlined.
  CHECK_FALSE(j["frames"].contains("inlined"));
  const auto again = compact_stacks_from_json(j);
  REQUIRE(again);
  CHECK(again->frames == s.frames);
  CHECK(again->threads == s.threads);
}

TEST_CASE("frames that differ in their position are different") {
  Frame f{.kind = FrameKind::python, .func = "f", .file = "/x.py", .line = 3};
  ProcessStacks p;
  for (int column : {0, 4, 8, 4}) {
    f.column = column;
    p.threads.push_back({.tid = column, .frames = {f}});
  }
  CHECK(compact(p).frames.size() == 3);
  p.threads[1].frames[0].locals = {{.name = "x", .value = "1"}};
  CHECK(compact(p).frames.size() == 4);
}

TEST_CASE("only the frames of wanted threads are expanded") {
  const ProcessStacks p = expand(compact(rich()), {false, true, false});
  CHECK(p.threads.size() == 3);
  CHECK(p.threads[0].frames.empty());
  CHECK(p.threads[1].frames == rich().threads[1].frames);
}

TEST_CASE("files of the first version are read") {
  const auto read = compact_stacks_from_json(json::parse(to_json(rich()).dump()));
  REQUIRE(read);
  CHECK(to_json(expand(*read)).dump() == to_json(rich()).dump());
}

TEST_CASE("text that is not UTF-8 is replaced") {
  ProcessStacks p = rich();
  p.threads[1].frames[0].func = "a\xff";
  const auto read = process_stacks_from_json(file_of(p));
  REQUIRE(read);
  CHECK(read->threads[1].frames[0].func == "a\xEF\xBF\xBD");
}

TEST_CASE("a negative number in a frame is written as unknown") {
  ProcessStacks p = rich();
  p.threads[0].frames[1].line = -1;
  const auto read = process_stacks_from_json(file_of(p));
  REQUIRE(read);
  CHECK(read->threads[0].frames[1].line == 0);
}

TEST_CASE("an inconsistent table is refused with the reason") {
  CHECK(is_refused([](json& j) { j["schema"] = "xpurun.stacks/3"; }));
  CHECK(is_refused([](json& j) { j["threads"][1]["frames"] = "0 6"; }));
  CHECK(is_refused([](json& j) { j["threads"][1]["frames"] = "0 -1"; }));
  CHECK(is_refused([](json& j) { j["threads"][1]["frames"] = json::array({0, 1}); }));
  CHECK(is_refused([](json& j) { j["threads"][1]["frames"] = "99999999999999999999"; }));
  for (const char* list :
       {" ", " 1 1 1 1 1 1", "1 1 1 1 1 1 ", "1  1 1 1 1 1", "1 1 1 1 1 1.0", "1 1 1 1 1 a", "1"}) {
    CAPTURE(list);
    json j = file_of(rich());
    j["frames"]["func"] = list;
    CHECK_FALSE(compact_stacks_from_json(j));
  }
  CHECK(is_refused([](json& j) { j["frames"]["func"] = "1 1 1 1 1 100000"; }));
  CHECK(is_refused([](json& j) { j["frames"]["line"] = "0 3 0 0 0 2147483648"; }));
  CHECK(is_refused([](json& j) { j["frames"]["locals"]["0"] = json::array({"x"}); }));
  CHECK(is_refused([](json& j) { j["strings"][1] = 3; }));
  CHECK(is_refused([](json& j) { j.erase("strings"); }));
  CHECK(is_refused([](json& j) { j.erase("frames"); }));
  const auto other =
      compact_stacks_from_json(json::parse(R"({"schema": "xpurun.stacks/2", "threads": [{"frames": "0"}]})"));
  REQUIRE_FALSE(other);
  CHECK(other.error().what.find("there is no frame 0") != std::string::npos);
  CHECK_FALSE(compact_stacks_from_json(json::parse("[]")));
  // Additions of a later version are ignored.
  CHECK_FALSE(is_refused([](json& j) { j["frames"]["new"] = "x"; }));
  CHECK_FALSE(is_refused([](json& j) { j["frames"].erase("line"); }));
}

TEST_CASE("a small file cannot expand beyond the memory limit") {
  json j = file_of(rich());
  j["strings"].push_back(std::string(1 << 20, 'x'));
  const std::string last = std::to_string(j["strings"].size() - 1);
  j["frames"]["func"] = last + " 1 1 1 1 1";
  CHECK(compact_stacks_from_json(j));
  // One long text in many frames of a thread.
  std::string places = "0";
  for (int i = 0; i < 1500; ++i) {
    places += " 0";
  }
  j["threads"][0]["frames"] = places;
  const auto threads = compact_stacks_from_json(j);
  REQUIRE_FALSE(threads);
  CHECK(threads.error().what.find("too long") != std::string::npos);
  // One long text in many frames of the table.
  std::string kinds = "1";
  std::string funcs = last;
  for (int i = 0; i < 1500; ++i) {
    kinds += " 1";
    funcs += " " + last;
  }
  const auto table = compact_stacks_from_json(
      {{"schema", kStacksSchema}, {"frames", {{"kind", kinds}, {"func", funcs}}}, {"strings", j["strings"]}});
  REQUIRE_FALSE(table);
  CHECK(table.error().what.find("too long") != std::string::npos);
}
