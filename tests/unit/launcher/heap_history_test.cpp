// What has grown: memory that is taken and given back has not.
#include "launcher/heap/heap_history.h"

#include <doctest/doctest.h>

#include <memory>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

constexpr base::MonoNs kSecond = 1'000'000'000;
constexpr int64_t kMiB = int64_t{1} << 20;

// Stack 1 leaks, 2 is a cache that was filled at the start, 3 is taken and given back in each second step.
HeldByStack held_at(int64_t second) {
  HeldByStack out{};
  out[1] = 3 * kMiB * second;
  out[2] = 100 * kMiB;
  out[3] = second % 2 == 0 ? 500 * kMiB : 0;
  return out;
}

}  // namespace

TEST_CASE("growth by stack") {
  const auto history = std::make_unique<HeapHistory>();
  for (int64_t second = 1; second <= 4; ++second) {
    history->add(second * kSecond, static_cast<uint64_t>(10 * second), held_at(second));
  }
  CHECK(history->growth().time == 0);  // too short
  for (const int64_t until : {20, 200, 2000}) {
    for (int64_t second = until == 20 ? 5 : until / 10 + 1; second <= until; ++second) {
      history->add(second * kSecond, static_cast<uint64_t>(10 * second), held_at(second));
    }
    const HeapHistory::Growth found = history->growth();
    CHECK(found.time >= until * kSecond / 8);
    const int64_t seconds = found.time / kSecond;
    CHECK(found.grown[1] == 3 * kMiB * seconds);
    CHECK(found.steps == static_cast<uint64_t>(10 * seconds));
    CHECK(found.grown[2] == 0);
    CHECK(found.grown[3] == 0);
  }
}

TEST_CASE("growth without steps") {
  const auto history = std::make_unique<HeapHistory>();
  for (int64_t second = 1; second <= 20; ++second) {
    history->add(second * kSecond, 0, held_at(second));
  }
  CHECK(history->growth().steps == 0);
  CHECK(history->growth().grown[1] > 0);
}
