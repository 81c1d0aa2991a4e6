#include "stackdump/cpython/frames.h"
#include "tests/unit/stackdump/fake_memory.h"

#include <doctest/doctest.h>

using namespace xpurun::stackdump;

namespace {

constexpr Addr kRuntime = 0x100000;
constexpr Addr kInterp = 0x200000;
constexpr Addr kThread = 0x300000;
constexpr Addr kFrames = 0x400000;
constexpr Addr kCframe = 0x500000;
const Offsets& kFrameOffsets = kOffsets312;

Addr frame_at(size_t i) {
  return kFrames + i * 128;
}

// A 3.12 process with one thread and no frames yet.
struct FakePython {
  FakeMemory memory;
  PythonRuntime runtime;

  FakePython() {
    runtime.address = kRuntime;
    runtime.offsets = kFrameOffsets;
    memory.add(kRuntime, 4096);
    memory.add(kInterp, 4096);
    memory.add(kThread, 4096);
    memory.add(kFrames, 1 << 20);
    memory.add(kCframe, 4096);
    memory.put<Addr>(kRuntime + kFrameOffsets.runtime_interpreters, kInterp);
    memory.put<Addr>(kInterp + kFrameOffsets.interp_threads, kThread);
    memory.put<Addr>(kThread + kFrameOffsets.thread_interp, kInterp);
    memory.put<uint64_t>(kThread + kFrameOffsets.thread_id, 0x7f00);
    memory.put<Addr>(kThread + kFrameOffsets.thread_frame, kCframe);
  }
  void frame(size_t i, Addr previous, Addr code, uint8_t owner) {
    memory.put<Addr>(frame_at(i) + kFrameOffsets.frame_previous, previous);
    memory.put<Addr>(frame_at(i) + kFrameOffsets.frame_code, code);
    memory.put<uint8_t>(frame_at(i) + kFrameOffsets.frame_boundary, owner);
  }
  void current(Addr frame) { memory.put<Addr>(kCframe + kFrameOffsets.cframe_current, frame); }
  PySnapshot read() { return read_python(memory, runtime, INT64_MAX); }
};

}  // namespace

TEST_CASE("shim frames separate the groups and anchor them") {
  FakePython py;
  py.frame(0, frame_at(1), 0x1000, 0);
  py.frame(1, frame_at(2), 0x2000, 0);
  py.frame(2, frame_at(3), 0, 3);  // shim
  py.frame(3, frame_at(4), 0x3000, 1);
  py.frame(4, 0, 0, 3);
  py.current(frame_at(0));
  const auto snapshot = py.read();
  REQUIRE(snapshot.threads.size() == 1);
  const auto& t = snapshot.threads[0];
  CHECK(t.thread_id == 0x7f00);
  CHECK(t.cut.empty());
  REQUIRE(t.groups.size() == 2);
  CHECK(t.groups[0].anchor == frame_at(2));
  CHECK(t.groups[0].frames.size() == 2);
  CHECK(t.groups[1].anchor == frame_at(4));
  CHECK(t.groups[1].frames[0].code == 0x3000);
  CHECK(snapshot.code.empty());  // none of these is readable
}

TEST_CASE("a cycle of frames ends the walk and is reported") {
  FakePython py;
  py.frame(0, frame_at(1), 0x1000, 0);
  py.frame(1, frame_at(0), 0x2000, 0);
  py.current(frame_at(0));
  const auto t = py.read().threads.at(0);
  CHECK(t.cut == "frames form a circle");
  REQUIRE(t.groups.size() == 1);
  CHECK(t.groups[0].frames.size() == 2);
}

TEST_CASE("garbage pointers end the walk and keep the earlier frames") {
  FakePython py;
  py.frame(0, 0xdeadbeefdeadbeef, 0x1000, 0);
  py.current(frame_at(0));
  auto t = py.read().threads.at(0);
  CHECK(t.cut == "a frame cannot be read");
  CHECK(t.groups.size() == 1);
  py.memory.put<Addr>(kThread + kFrameOffsets.thread_frame, 0x1);
  t = py.read().threads.at(0);
  CHECK(t.groups.empty());
}

TEST_CASE("endless chains are bounded") {
  FakePython py;
  for (size_t i = 0; i < kMaxPyFrames + 100; ++i) {
    py.frame(i, frame_at(i + 1), 0x1000, 0);
  }
  py.current(frame_at(0));
  const auto t = py.read().threads.at(0);
  CHECK(t.cut == "more frames than are shown");
  CHECK(t.groups.at(0).frames.size() == kMaxPyFrames);
}

TEST_CASE("cycles of threads and interpreters end the walk too") {
  FakePython py;
  py.memory.put<Addr>(kThread + kFrameOffsets.thread_next, kThread);
  py.memory.put<Addr>(kInterp + kFrameOffsets.interp_next, kInterp);
  CHECK(py.read().threads.size() == 1);
  py.memory.put<Addr>(kThread + kFrameOffsets.thread_next, 0x99);
  py.memory.put<Addr>(kInterp + kFrameOffsets.interp_next, 0x77);
  CHECK(py.read().threads.size() == 1);
}

TEST_CASE("the holder of a locked GIL is known") {
  FakePython py;
  py.memory.put<Addr>(kInterp + kFrameOffsets.interp_gil, kInterp + 2048);
  py.memory.put<Addr>(kInterp + 2048 + kFrameOffsets.gil_holder, kThread);
  py.memory.put<int32_t>(kInterp + kFrameOffsets.interp_gc_collecting, 1);
  CHECK_FALSE(py.read().threads.at(0).holds_gil);
  py.memory.put<int32_t>(kInterp + 2048 + kFrameOffsets.gil_locked, 1);
  CHECK(py.read().threads.at(0).holds_gil);
  CHECK(py.read().threads.at(0).collecting);
  py.memory.put<Addr>(kInterp + kFrameOffsets.interp_gil, 0x5);
  CHECK_FALSE(py.read().threads.at(0).holds_gil);
}

TEST_CASE("a passed deadline leaves an incomplete snapshot") {
  FakePython py;
  const auto snapshot = read_python(py.memory, py.runtime, 0);
  CHECK_FALSE(snapshot.complete);
  CHECK(snapshot.threads.empty());
}
