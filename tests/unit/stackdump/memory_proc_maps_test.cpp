#include "stackdump/memory/proc_maps.h"
#include "stackdump/ptrace/stack_bounds.h"

#include <doctest/doctest.h>

#include <unistd.h>

using namespace xpurun::stackdump;

TEST_CASE("maps lines of every kind are parsed") {
  const auto maps = ProcMaps::parse(
      "00400000-0041f000 r--p 00000000 fe:00 1234                               /usr/bin/python3.11\n"
      "0041f000-00500000 r-xp 0001f000 fe:00 1234                               /usr/bin/python3.11\n"
      "7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n"
      "7f0000001000-7f0000002000 r-xp 00002140 fe:00 77  /tmp/a b (deleted) c.so (deleted)\n"
      "7f0000003000-7f0000004000 r--p 00000000 fe:00 78  /tmp/new\\012line.so\n"
      "7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]\n"
      "nonsense\n"
      "5000-4000 r--p 00000000 00:00 0\n");
  REQUIRE(maps.all().size() == 6);
  CHECK(maps.all()[0].path == "/usr/bin/python3.11");
  CHECK_FALSE(maps.all()[0].executable);
  CHECK(maps.all()[1].executable);
  CHECK(maps.all()[1].offset == 0x1f000);
  CHECK(maps.all()[1].inode == 1234);
  CHECK(maps.all()[2].path.empty());
  CHECK(maps.all()[2].writable);
  CHECK(maps.all()[3].deleted);
  CHECK(maps.all()[3].path == "/tmp/a b (deleted) c.so");
  CHECK(maps.all()[4].path == "/tmp/new\nline.so");
  CHECK(maps.find(0x41f000) == &maps.all()[1]);
  CHECK(maps.find(0x41efff) == &maps.all()[0]);
  CHECK(maps.find(0x500000) == nullptr);
  CHECK(maps.find(0) == nullptr);
}

TEST_CASE("this process's maps contain its code and stack") {
  const auto maps = ProcMaps::read(::getpid());
  REQUIRE(maps);
  const int local = 0;
  const Mapping* stack = maps->find(reinterpret_cast<Addr>(&local));
  REQUIRE(stack != nullptr);
  CHECK(stack->path == "[stack]");
  CHECK_FALSE(ProcMaps::read(0));
}

namespace {

Registers at(Addr sp, uint64_t fs_base) {
  Registers r;
  r.r[Registers::kRsp] = sp;
  r.fs_base = fs_base;
  return r;
}

}  // namespace

TEST_CASE("the copied stack ends at the control block, the mapping or one mebibyte") {
  const auto maps = ProcMaps::parse(
      "10000000-10001000 ---p 00000000 00:00 0\n"
      "10001000-10801000 rw-p 00000000 00:00 0\n"
      "20000000-20021000 rw-p 00000000 00:00 0 [stack]\n");
  // A pthread stack: control block near the top.
  CHECK(stack_range(at(0x10800000, 0x10800700), maps) == AddrRange{0x10800000 - 128, 0x10800700});
  // Main thread: fs_base is elsewhere.
  CHECK(stack_range(at(0x20020000, 0x7f0000000740), maps) == AddrRange{0x20020000 - 128, 0x20021000});
  // An fs_base below sp is meaningless.
  CHECK(stack_range(at(0x20020000, 0x20000100), maps) == AddrRange{0x20020000 - 128, 0x20021000});
  // A deep stack is cut.
  CHECK(stack_range(at(0x10002000, 0), maps) == AddrRange{0x10002000 - 128, 0x10002000 + kMaxStackCopy});
  // The red zone does not extend beyond the mapping; an overflow into the guard page starts at the stack.
  CHECK(stack_range(at(0x10001010, 0x10001800), maps) == AddrRange{0x10001000, 0x10001800});
  CHECK(stack_range(at(0x10000ff8, 0x10001800), maps) == AddrRange{0x10001000, 0x10001800});
  // Garbage.
  CHECK(stack_range(at(0, 0), maps).size() == 0);
  CHECK(stack_range(at(~Addr{0}, 0), maps).size() == 0);
  CHECK(stack_range(at(0x30000000, 0), maps).size() == 0);
}
