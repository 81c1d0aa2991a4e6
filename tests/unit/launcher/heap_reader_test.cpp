// Samples of memory as holders, from a segment that is not trusted.
#include "launcher/heap/heap_reader.h"

#include <doctest/doctest.h>

#include <cstring>
#include <memory>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

constexpr auto kReady = static_cast<uint32_t>(wire::HeapEntry::ready);

struct Segment {
  std::unique_ptr<wire::HeapSegment> memory = std::make_unique<wire::HeapSegment>();
  uint32_t texts = 0;
  uint32_t places = 0;
  uint32_t stacks = 0;

  uint32_t text(const char* words) {
    wire::HeapText& to = memory->texts[++texts];
    const auto bytes = static_cast<uint32_t>(std::strlen(words));
    to.offset = memory->text_bytes.fetch_add(bytes);
    to.bytes = bytes;
    std::memcpy(memory->text + to.offset, words, bytes);
    to.state = kReady;
    return texts;
  }
  uint32_t line(const char* file, int line, const char* function) {
    wire::HeapPlace& to = memory->places[++places];
    to.file = text(file);
    to.function = text(function);
    to.line = line;
    to.state = kReady;
    return places;
  }
  uint32_t address(uint64_t address) {
    memory->places[++places].address = address;
    memory->places[places].state = kReady;
    return places;
  }
  uint32_t stack(std::initializer_list<uint32_t> frames, int64_t held, int64_t samples = 1) {
    wire::HeapStack& to = memory->stacks[++stacks];
    std::copy(frames.begin(), frames.end(), to.frames);
    to.depth = static_cast<uint32_t>(frames.size());
    to.held = held;
    to.held_samples = samples;
    to.state = kReady;
    return stacks;
  }
  model::MemoryLook look(const HeldByStack& grown = {}) const {
    model::MemoryLook out;
    HeapHolders holders(out);
    add(holders, model::MemoryCategory::heap, grown);
    holders.finish();
    return out;
  }
  void add(HeapHolders& holders, model::MemoryCategory category, const HeldByStack& grown) const {
    holders.add(category, *memory, held_by_stack(*memory), grown, [](uint64_t at) {
      return at == 7 ? std::nullopt
                     : std::optional<std::string>(at == 1 ? "libstdc++.so.6 (operator new)"
                                                          : "heat.cpp:88 (grow)");
    });
  }
};

std::string site_of(const model::MemoryLook& look, size_t holder) {
  std::string out;
  for (const uint32_t index : look.holders.at(holder).site) {
    const model::MemoryPlace& place = look.places.at(index);
    out += place.file + ":" + std::to_string(place.line) + " " + place.function + ";";
  }
  return out;
}

}  // namespace

TEST_CASE("holders by line") {
  Segment segment;
  const uint32_t outer = segment.line("train.py", 9, "<module>");
  const uint32_t append = segment.line("train.py", 5, "append_loss");
  const uint32_t again = segment.line("train.py", 5, "append_loss");  // another instruction of the line
  const uint32_t ours = segment.line("<xpurun>/stages.py", 1, "step");
  segment.stack({append, outer}, 1000, 2);
  segment.stack({again, ours, outer}, 500);
  segment.stack({segment.address(1), segment.address(2)}, 100);
  segment.stack({segment.address(7)}, 0);
  segment.memory->stacks[0].held = 30;  // found no room
  HeldByStack grown{};
  grown[1] = 200;
  const model::MemoryLook look = segment.look(grown);
  REQUIRE(look.holders.size() == 3);
  CHECK(look.devices.at(0).allocated == 1630);
  CHECK(look.holders[0].bytes == 1500);
  CHECK(look.holders[0].grown == 200);
  CHECK(look.holders[0].count == 3);
  CHECK(site_of(look, 0) == "train.py:5 append_loss;train.py:9 <module>;");
  CHECK(site_of(look, 1) == "heat.cpp:88 grow;");
  CHECK(site_of(look, 2).empty());
}

TEST_CASE("holders of a rank and of its workers") {
  Segment rank;
  rank.stack({rank.line("train.py", 5, "train")}, 1000);
  Segment worker;
  worker.stack({worker.line("data.py", 7, "load")}, 300);
  model::MemoryLook look;
  HeapHolders holders(look);
  HeldByStack grown{};
  grown[1] = 20;
  rank.add(holders, model::MemoryCategory::heap, {});
  worker.add(holders, model::MemoryCategory::workers, grown);
  worker.add(holders, model::MemoryCategory::workers, grown);  // another one with the same lines
  holders.finish();
  REQUIRE(look.holders.size() == 2);
  CHECK(look.devices.at(0).allocated == 1600);
  CHECK(look.holders[0].category == model::MemoryCategory::heap);
  CHECK(look.holders[1].category == model::MemoryCategory::workers);
  CHECK(look.holders[1].bytes == 600);
  CHECK(look.holders[1].grown == 40);
  CHECK(site_of(look, 1) == "data.py:7 load;");
}

TEST_CASE("a damaged segment") {
  Segment segment;
  const uint32_t place = segment.line("train.py", -5, "f");
  segment.memory->texts[2].offset = 0xffffffff;
  segment.stack({place, 0xffffffff, 5000}, 1000);
  segment.memory->stacks[1].depth = 0xffffffff;
  segment.stack({place}, INT64_MAX);
  segment.stack({place}, -4);
  const model::MemoryLook look = segment.look();
  CHECK(look.holders.size() == 1);
  CHECK(site_of(look, 0).starts_with("train.py:0 ;"));
}
