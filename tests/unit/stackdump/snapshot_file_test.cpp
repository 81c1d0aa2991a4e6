#include "stackdump/memory/snapshot_file.h"

#include "stackdump/memory/proc_maps.h"
#include "stackdump/memory/snapshot_memory.h"
#include "stackdump/process_dump.h"

#include <doctest/doctest.h>

using namespace xpurun::stackdump;

namespace {

SnapshotContent snapshot_sample() {
  SnapshotContent out;
  out.meta = R"({"pid": 1})";
  out.pages[0x1000] = std::string(4096, 'a');
  out.pages[0x7fff'ffff'f000] = std::string(4096, 'b');
  return out;
}

}  // namespace

TEST_CASE("a snapshot file survives writing and reading; any changed byte is detected") {
  const std::string file = encode_snapshot(snapshot_sample());
  CHECK(file.size() < 1000);
  const auto again = decode_snapshot(file);
  REQUIRE(again);
  CHECK(again->meta == snapshot_sample().meta);
  CHECK(again->pages == snapshot_sample().pages);
  for (size_t i = 0; i < file.size(); ++i) {
    CHECK_FALSE(decode_snapshot(file.substr(0, i)));
    std::string damaged = file;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x20);
    // Only the unused bits of the flags may differ without harm.
    const auto result = decode_snapshot(damaged);
    CHECK((!result || result->pages == snapshot_sample().pages));
  }
  CHECK_FALSE(decode_snapshot(file, 4096));
}

TEST_CASE("a snapshot of an unknown version is named as such") {
  std::string file = encode_snapshot(snapshot_sample());
  file[8] = 9;
  const auto result = decode_snapshot(file);
  REQUIRE_FALSE(result);
  CHECK(result.error().what == "the snapshot has format 9, this xpurun reads format 1");
}

TEST_CASE("an invalid description is refused") {
  for (
      const char* meta :
      {"", "{", "{}", "[]", R"({"pid": "x", "stacks": {}})",
       R"({"pid": 1, "maps": "", "modules": [], "threads": [{}], "stacks": {"schema": "xpurun.stacks/1"}})"}) {
    SnapshotContent content = snapshot_sample();
    content.meta = meta;
    CHECK_FALSE(ProcessDump::load(encode_snapshot(content), {}));
  }
}

TEST_CASE("mappings survive being written and read") {
  const std::string text =
      "00400000-00401000 r-xp 00000000 08:01 12 /a b\\012c (deleted)\n"
      "7ffd1000-7ffd2000 rw-p 00000000 00:00 0 [stack]\n";
  const auto maps = ProcMaps::parse(text);
  REQUIRE(maps.all().size() == 2);
  const auto again = ProcMaps::parse(to_text(maps));
  REQUIRE(again.all().size() == 2);
  CHECK(again.all()[0].path == "/a b\nc");
  CHECK(again.all()[0].deleted);
  CHECK(again.all()[0].executable);
  CHECK(again.all()[1].lo == 0x7ffd1000);
  CHECK(again.all()[1].path == "[stack]");
}

TEST_CASE("pages can be put into a snapshot and listed") {
  LiveMemory none(0);
  SnapshotMemory memory(none, 2);
  memory.freeze();
  const std::string page(4096, 'x');
  const auto bytes = std::as_bytes(std::span(page));
  memory.put(0x1000, bytes);
  memory.put(0x1001, bytes);             // not a page
  memory.put(0x2000, bytes.subspan(1));  // not a whole page
  memory.put(0x3000, bytes);
  memory.put(0x4000, bytes);  // one too many
  memory.put(0x1000, bytes);
  CHECK(memory.bytes(0x1ffe, 2) == "xx");
  CHECK_FALSE(memory.bytes(0x4000, 1));
  size_t seen = 0;
  memory.for_each_page([&](Addr, std::span<const std::byte> p) { seen += p.size(); });
  CHECK(seen == 8192);
}
