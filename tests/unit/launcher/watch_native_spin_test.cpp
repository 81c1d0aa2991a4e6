#include "launcher/watch/native_spin.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::launcher;
using stackdump::Registers;

namespace {

Registers at(uint64_t pc, uint64_t counter = 0) {
  Registers out;
  out.r[Registers::kRip] = pc;
  out.r[0] = counter;
  return out;
}

}  // namespace

TEST_CASE("a loop that waits for a flag meets the same states again") {
  NativeSpin spin;
  CHECK(spin.moves(at(0x10)));
  CHECK(spin.moves(at(0x14)));
  for (int i = 0; i < 20; ++i) {
    CHECK_FALSE(spin.moves(at(i % 2 == 0 ? 0x10 : 0x14)));
  }
  spin.forget();
  CHECK(spin.moves(at(0x10)));
}

TEST_CASE("a loop that counts goes on, however often it is sampled") {
  NativeSpin spin;
  for (uint64_t i = 0; i < 5000; ++i) {
    CHECK(spin.moves(at(0x10, i)));
  }
}
