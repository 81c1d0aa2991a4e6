// Features of free-threaded builds: tables with moved fields, per-thread copies of the instructions,
// another layout of the string flags.
#include "stackdump/cpython/dict.h"
#include "stackdump/cpython/frames.h"
#include "stackdump/cpython/offsets/debug_offsets.h"
#include "tests/unit/stackdump/fake_memory.h"

#include <doctest/doctest.h>

#include <string_view>

using namespace xpurun::stackdump;

namespace {

constexpr Addr kFreeThreadedRuntime = 0x100000;

// _Py_DebugOffsets of CPython 3.14.10 from its third word on, compiled from its own headers with
// Py_GIL_DISABLED.
constexpr uint64_t kTable314t[] = {
    365624, 784,   808, 249976, 7280, 7272, 7344, 7360, 7408, 7712, 7696, 7704, 16,  7808, 0,  7832, 7824,
    8024,   17300, 832, 0,      8,    16,   72,   152,  160,  232,  32,   88,   8,   0,    56, 80,   78,
    64,     72,    240, 128,    136,  144,  152,  84,   68,   112,  120,  232,  224, 32,   24, 432,  40,
    104,    184,   56,  48,     32,   56,   40,   32,   216,  40,   56,   48,   64,  48,   56, 40,   32,
    48,     32,    40,  56,     32,   48,   80,   48,   32,   56,   288,  192,  176,
};

void put_table(FakeMemory& memory, uint64_t version) {
  memory.add(kFreeThreadedRuntime, 4096);
  memory.put<uint64_t>(kFreeThreadedRuntime, 0x7970677562656478);  // "xdebugpy"
  memory.put<uint64_t>(kFreeThreadedRuntime + 8, version);
  memory.put<uint64_t>(kFreeThreadedRuntime + 16, 1);
  Addr at = kFreeThreadedRuntime + 24;
  for (const uint64_t value : kTable314t) {
    memory.put<uint64_t>(at, value);
    at += 8;
  }
}

Offsets offsets_of(FakeMemory& memory) {
  const auto about = read_self_description(memory, kFreeThreadedRuntime);
  REQUIRE(about);
  CHECK(about->free_threaded);
  const auto o = read_debug_offsets(memory, kFreeThreadedRuntime, *about);
  REQUIRE(o);
  return *o;
}

}  // namespace

TEST_CASE("offsets missing in the table are shifted by the larger object header") {
  FakeMemory memory;
  put_table(memory, 0x030e0af0);
  const Offsets o = offsets_of(memory);
  CHECK(o.minor == 14);
  CHECK(o.runtime_interpreters == 808);
  CHECK(o.thread_size == 832);
  CHECK(o.frame_globals == 24);
  CHECK(o.code_constants == 40);
  CHECK(o.code_names == 48);
  CHECK(o.gil_locked == 24);
  CHECK(o.gil_holder == 16);
  CHECK(o.interp_gc_collecting == 7600);
  CHECK(o.frame_tlbc == 72);
  CHECK(o.code_tlbc == 224);
  CHECK(o.frame_tagged);
  CHECK(o.type_basicsize == 48);
  CHECK(o.type_dictoffset == 304);
  CHECK(o.type_cached_keys == 896);
  CHECK(o.module_dict == 32);
  CHECK(o.dict_used == 32);
  CHECK(o.sequence_size == 32);
  CHECK(o.set_used == 40);
  CHECK(o.managed_dict == 8);
  CHECK(o.unicode_compact_data == 72);
  CHECK(o.unicode_kind_shift == 8);
}

TEST_CASE("3.13 without GIL has the string flags of 3.13 and one copy of the instructions") {
  FakeMemory memory;
  memory.add(kFreeThreadedRuntime, 4096);
  memory.put<uint64_t>(kFreeThreadedRuntime, 0x7970677562656478);
  memory.put<uint64_t>(kFreeThreadedRuntime + 8, 0x030d00f0);
  memory.put<uint64_t>(kFreeThreadedRuntime + 16, 1);
  for (const Addr size : {19, 28, 43}) {  // of a thread state, a frame, a code object
    memory.put<uint64_t>(kFreeThreadedRuntime + size * 8, 200);
  }
  const Offsets o = offsets_of(memory);
  CHECK(o.unicode_kind_shift == 2);
  CHECK(o.frame_tlbc == kAbsent);
  CHECK(o.code_tlbc == kAbsent);
  CHECK_FALSE(o.frame_tagged);
  CHECK(o.type_cached_keys == 896);
}

TEST_CASE("unknown versions and inconsistent tables are refused") {
  FakeMemory memory;
  put_table(memory, 0x031000f0);
  auto about = read_self_description(memory, kFreeThreadedRuntime);
  REQUIRE(about);
  CHECK_FALSE(read_debug_offsets(memory, kFreeThreadedRuntime, *about));
  memory.put<uint64_t>(kFreeThreadedRuntime + 8, 0x030e00f0);
  about = read_self_description(memory, kFreeThreadedRuntime);
  CHECK(read_debug_offsets(memory, kFreeThreadedRuntime, *about));
  for (const uint64_t size_of_thread : {uint64_t{1} << 40, uint64_t{0}}) {
    memory.put<uint64_t>(kFreeThreadedRuntime + 22 * 8, size_of_thread);
    about = read_self_description(memory, kFreeThreadedRuntime);
    CHECK_FALSE(read_debug_offsets(memory, kFreeThreadedRuntime, *about));
  }
  memory.put<uint64_t>(kFreeThreadedRuntime, 0);
  CHECK_FALSE(read_self_description(memory, kFreeThreadedRuntime));
}

TEST_CASE("a frame's instruction is relative to the copy that its thread runs") {
  constexpr Addr kCode = 0x200000;
  constexpr Addr kArray = 0x210000;
  constexpr Addr kName = 0x220000;
  FakeMemory memory;
  put_table(memory, 0x030e0af0);
  const Offsets o = offsets_of(memory);
  memory.add(kCode, 4096);
  memory.add(kArray, 4096);
  memory.add(kName, 4096);
  memory.put<Addr>(kCode + o.code_name, kName);
  memory.put<Addr>(kCode + o.code_tlbc, kArray);
  memory.put<int64_t>(kArray, 3);
  memory.put<Addr>(kArray + 8, kCode + o.code_instructions);
  memory.put<Addr>(kArray + 24, 0x300000);
  memory.put<int64_t>(kName + o.unicode_length, 2);
  memory.put<uint32_t>(kName + o.unicode_state, 2U | 1U << 8 | 1U << 11 | 1U << 12);  // interned, ASCII
  memory.put<uint16_t>(kName + o.unicode_ascii_data, 0x6968);                         // "hi"
  const auto code = read_code_object(memory, kCode, o);
  REQUIRE(code);
  CHECK(code->name == "hi");
  const auto at = [&](Addr instruction, int32_t copy) {
    return instruction_index({.code = kCode, .instruction = static_cast<int64_t>(instruction), .copy = copy},
                             *code, o);
  };
  CHECK(at(kCode + o.code_instructions + 10, 0) == 5);
  CHECK(at(0x300000 + 8, 2) == 4);
  CHECK(at(kCode + o.code_instructions + 10, 99) == 5);  // no such copy
  memory.put<int64_t>(kArray, int64_t{1} << 50);
  CHECK(read_code_object(memory, kCode, o)->copies.empty());
}

TEST_CASE("frames and their tagged code are read") {
  constexpr Addr kThread = 0x400000;
  constexpr Addr kFrame = 0x410000;
  FakeMemory memory;
  put_table(memory, 0x030e0af0);
  const Offsets o = offsets_of(memory);
  memory.add(kThread, 4096);
  memory.add(kFrame, 4096);
  memory.put<Addr>(kThread + o.thread_frame, kFrame);
  memory.put<Addr>(kFrame + o.frame_previous, kFrame + 1024);
  memory.put<Addr>(kFrame + o.frame_code, 0x7000 | 1);  // deferred reference
  memory.put<int32_t>(kFrame + o.frame_tlbc, 2);
  memory.put<uint8_t>(kFrame + 1024 + o.frame_boundary, 3);
  const auto raw = memory.bytes(kThread, o.thread_size);
  REQUIRE(raw);
  const PyThread t = read_py_thread(memory, o, kThread, std::as_bytes(std::span(*raw)));
  REQUIRE(t.groups.size() == 1);
  CHECK(t.groups[0].anchor == kFrame + 1024);
  CHECK(t.groups[0].frames.at(0).code == 0x7000);
  CHECK(t.groups[0].frames.at(0).copy == 2);
}
