#include "stackdump/resolve/wait_target.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::stackdump;

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
