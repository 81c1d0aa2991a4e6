#include "common/base/os/io.h"
#include "common/base/os/temporary_directory.h"
#include "stackdump/resolve/call_watch.h"
#include "stackdump/resolve/wait_target.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <ctime>
#include <unistd.h>

using namespace xpurun;
using namespace xpurun::stackdump;

TEST_CASE("a group that the freezer of the first version holds") {
  const auto dir = base::TemporaryDirectory::create("xpurun-freezer").value();
  REQUIRE(base::make_dirs(dir.path() + "/job/7"));
  const std::string cgroup = "9:name=systemd:/x\n4:freezer:/job/7\n0::/y\n";
  CHECK_FALSE(is_held_by_freezer(cgroup, dir.path()));
  REQUIRE(base::write_file_atomic(dir.path() + "/job/7/freezer.state", "FROZEN\n"));
  CHECK(is_held_by_freezer(cgroup, dir.path()));
  CHECK_FALSE(is_held_by_freezer("0::/job/7\n", dir.path()));
  REQUIRE(base::write_file_atomic(dir.path() + "/job/7/freezer.state", "THAWED\n"));
  CHECK_FALSE(is_held_by_freezer(cgroup, dir.path()));
}

TEST_CASE("the control group that can be frozen") {
  CHECK(frozen_group("9:name=systemd:/x\n4:freezer:/slurm/job_7\n0::/y\n") == "/slurm/job_7");
  CHECK(frozen_group("4:freezer:/\n0::/job.scope\n") == "/job.scope");
  CHECK(frozen_group("0::/job.scope\n") == "/job.scope");
  CHECK(frozen_group("").empty());
}

TEST_CASE("wait target: the holders of a file lock, from /proc/locks") {
  constexpr std::string_view kLocks =
      "1: POSIX  ADVISORY  WRITE 31 08:01:7 0 EOF\n"
      "2: FLOCK  ADVISORY  WRITE 12 08:01:131 0 EOF\n"
      "2: -> FLOCK  ADVISORY  WRITE 13 08:01:131 0 EOF\n"
      "3: POSIX  ADVISORY  READ  14 08:01:131 0 EOF\n"
      "4: POSIX  ADVISORY  READ  15 08:01:9 0 EOF\n"
      "5: POSIX  ADVISORY  READ  16 08:01:9 0 EOF\n"
      "5: -> POSIX  ADVISORY  WRITE 17 08:01:9 0 EOF\n";
  const auto flock = lock_holders(kLocks, 13);
  CHECK(flock.kind == "flock");
  CHECK(flock.pids == std::vector<base::Pid>{12});
  const auto record = lock_holders(kLocks, 17);
  CHECK(record.kind == "fcntl");
  CHECK(record.pids == std::vector<base::Pid>{15, 16});
  CHECK(lock_holders(kLocks, 12).empty());
  CHECK(lock_holders_of_inode(kLocks, "131").pids == std::vector<base::Pid>{12, 14});
  CHECK(lock_holders_of_inode(kLocks, "7").kind == "fcntl");
  CHECK(lock_holders_of_inode(kLocks, "31").empty());
  CHECK(lock_holders_of_inode(kLocks, "").empty());
  CHECK(lock_holders("", 12).empty());
  CHECK(lock_holders("1: -> FLOCK\n:\n1 2 3 4 5 6 7", 12).empty());
}

TEST_CASE("wait target: the peer of a connection, from /proc/net/tcp") {
  constexpr std::string_view kTable =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
      "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1\n"
      "   1: 0100007F:C350 0700000A:01BB 01 00000000:00000000 00:00000000 00000000  1000        0 12 1\n"
      "   2: 00000000000000000000000001000000:0016 0000000000000000FFFF00000700000A:01BB 01 "
      "00000000:00000000 "
      "00:00000000 00000000  1000        0 13 1\n";
  CHECK(tcp_peer(kTable, "12") == "10.0.0.7:443");
  CHECK(tcp_peer(kTable, "13") == "10.0.0.7:443");
  CHECK(tcp_peer(kTable, "11").empty());  // it listens
  CHECK(tcp_peer(kTable, "14").empty());
}

TEST_CASE("wait target: a sleep, from /proc/PID/syscall") {
  CHECK(is_sleep("230 0x1 0x1 0x7ffc10 0x0 0x0 0x0 0x7ffc0 0x7f5e"));  // clock_nanosleep
  CHECK(is_sleep("35 0x7ffc10 0x0 0x0 0x0 0x0 0x0 0x7ffc0 0x7f5e"));   // nanosleep
  CHECK(is_sleep("23 0x0 0x0 0x0 0x0 0x7ffc10 0x0 0x7ffc0 0x7f5e"));   // select of nothing
  CHECK(is_sleep("7 0x0 0x0 0x64 0x0 0x0 0x0 0x7ffc0 0x7f5e"));        // poll of nothing
  CHECK_FALSE(is_sleep("7 0x7ffc10 0x1 0x64 0x0 0x0 0x0 0x7ffc0 0x7f5e"));
  CHECK_FALSE(is_sleep("202 0x7f01 0x189 0x0 0x0 0x0 0xffffffff 0x7ffc0 0x7f5e"));  // futex
  CHECK_FALSE(is_sleep("running"));
  CHECK_FALSE(is_sleep("-1 0x7ffc0 0x7f5e"));
  CHECK_FALSE(is_sleep(""));
}

TEST_CASE("wait target: a sleep of a minute is not followed") {
  LiveMemory memory(::getpid());
  const auto text = [](const timespec& t, const char* flags) {
    return fmt::format("230 0x1 {} {:#x} 0x0 0x0 0x0 0x7ffc0 0x7f5e", flags, reinterpret_cast<uintptr_t>(&t));
  };
  const timespec tenth{.tv_sec = 0, .tv_nsec = 100'000'000};
  const timespec minute{.tv_sec = 60, .tv_nsec = 0};
  CHECK(ends_soon(text(tenth, "0x0"), memory));
  CHECK_FALSE(ends_soon(text(minute, "0x0"), memory));
  timespec until{};
  ::clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec = 0;
  CHECK(ends_soon(text(until, "0x1"), memory));
  until.tv_sec += 60;
  CHECK_FALSE(ends_soon(text(until, "0x1"), memory));
}
