#include "stackdump/cpython/waits/asyncio_offsets.h"

#include <doctest/doctest.h>

using namespace xpurun::stackdump;

TEST_CASE("the section .AsyncioDebug of CPython 3.14 and 3.15") {
  // As in Debian's 3.14.10 and 3.15.2.
  const std::array<uint64_t, kAsyncioWords> of_14 = {168,    136,   96,  108, 109, 128, 152,
                                                     225864, 10880, 936, 864, 872, 880};
  const std::array<uint64_t, kAsyncioWords> of_15 = {168,    136,   96,   108,  109,  128, 152,
                                                     226240, 10856, 1104, 1024, 1032, 1048};
  const auto at_14 = asyncio_offsets_of(of_14);
  REQUIRE(at_14);
  CHECK(at_14->task_awaited_by == 96);
  CHECK(at_14->task_node == 152);
  CHECK(at_14->interp_tasks == 10880);
  CHECK(at_14->thread_tasks == 880);
  const auto at_15 = asyncio_offsets_of(of_15);
  REQUIRE(at_15);
  CHECK(at_15->thread_tasks == 1048);
}

TEST_CASE("words that are no such section") {
  CHECK_FALSE(asyncio_offsets_of({}));
  std::array<uint64_t, kAsyncioWords> words = {168,    136,   96,  108, 109, 128, 152,
                                               225864, 10880, 936, 864, 872, 880};
  SUBCASE("a field beyond its structure") {
    words[6] = 168;
  }
  SUBCASE("a task of many pages") {
    words[0] = 1 << 20;
  }
  SUBCASE("a thread state of many pages") {
    words[9] = 1 << 20;
  }
  SUBCASE("an address") {
    words[7] = 0x7f0000000000;
  }
  CHECK_FALSE(asyncio_offsets_of(words));
}
