#include "stackdump/resolve/interleave.h"

#include <doctest/doctest.h>

using namespace xpurun::stackdump;

namespace {

// Frames of 0x100 bytes each, innermost at 0x1000.
NativeStack native(size_t frames, std::string stopped = "") {
  NativeStack s;
  for (size_t i = 0; i < frames; ++i) {
    const Addr sp = 0x1000 + i * 0x100;
    s.frames.push_back({.pc = 0x400000 + i, .sp = sp, .cfa = sp + 0x100});
  }
  s.stopped = std::move(stopped);
  return s;
}

FrameGroup group(Addr anchor, size_t frames = 1) {
  return {.anchor = anchor, .frames = std::vector<RawFrame>(frames)};
}

// "n0 p0.0 p0.1 N1 m" : native, python, evaluating native, marker.
std::string text(const std::vector<MergedItem>& items) {
  std::string out;
  for (const MergedItem& i : items) {
    out += out.empty() ? "" : " ";
    if (i.kind == MergedItem::Kind::native) {
      out += (i.eval ? "N" : "n") + std::to_string(i.native);
    } else if (i.kind == MergedItem::Kind::python) {
      out += "p" + std::to_string(i.group) + "." + std::to_string(i.frame);
    } else {
      out += "m";
    }
  }
  return out;
}

}  // namespace

TEST_CASE("groups go before the native frame around their anchor") {
  CHECK(text(interleave(native(4), {group(0x1180, 2), group(0x1300)}, {})) == "n0 p0.0 p0.1 N1 n2 p1.0 N3");
}

TEST_CASE("boundaries: sp belongs to the frame, cfa to the next frame") {
  CHECK(text(interleave(native(3), {group(0x1100)}, {})) == "n0 p0.0 N1 n2");
  CHECK(text(interleave(native(3), {group(0x10ff)}, {})) == "p0.0 N0 n1 n2");
}

TEST_CASE("groups outside all frames are kept after a marker") {
  CHECK(text(interleave(native(2, "no table"), {group(0x1080), group(0x9000)}, {})) == "p0.0 N0 n1 m m p1.0");
  // An inner group that cannot be placed stays inside the outer group.
  CHECK(text(interleave(native(2), {group(0x9000), group(0x1180)}, {})) == "n0 m p0.0 p1.0 N1");
  CHECK(text(interleave(native(2), {group(0)}, {})) == "n0 n1 m p0.0");
}

TEST_CASE("without native frames the Python frames stand alone") {
  CHECK(text(interleave(native(0), {group(0x1000, 2), group(0x2000)}, {})) == "p0.0 p0.1 p1.0");
  CHECK(text(interleave(native(0, "no registers"), {group(0x1000)}, {})) == "m p0.0");
  CHECK(text(interleave(native(0), {}, {})).empty());
}

TEST_CASE("two groups in one frame keep their order") {
  CHECK(text(interleave(native(1), {group(0x1010), group(0x1020)}, {})) == "p0.0 p1.0 N0");
}

TEST_CASE("without anchors frames are matched by order") {
  const std::vector<FrameGroup> two = {group(0), group(0)};
  CHECK(text(interleave(native(4), two, {false, true, false, true})) == "n0 p0.0 N1 n2 p1.0 N3");
  // An evaluation that has just begun has no Python frame yet.
  CHECK(text(interleave(native(3), two, {true, true, true})) == "n0 p0.0 N1 p1.0 N2");
  // An unwind that stopped early lacks the outer evaluation.
  CHECK(text(interleave(native(2, "x"), two, {false, true})) == "n0 p0.0 N1 m m p1.0");
  CHECK(text(interleave(native(2), two, {false, false})) == "n0 n1 m p0.0 p1.0");
}
