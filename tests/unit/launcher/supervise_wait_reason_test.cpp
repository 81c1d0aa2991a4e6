#include "common/base/os/open_files.h"
#include "launcher/watch/wait_reason.h"

#include <doctest/doctest.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace xpurun;
using namespace xpurun::launcher;
using model::OutsideWait;
using stackdump::CodeName;

namespace {

using Names = std::vector<CodeName>;
const CodeName kUser{"main", "/home/u/train.py"};

}  // namespace

TEST_CASE("Python's waits for its own threads and processes") {
  const Names joins{{"Thread.join", "/usr/lib/python3.11/threading.py"}, kUser};
  CHECK(wait_reason(joins, {.kernel = KernelWaitKind::lock}).target == WaitTarget::helpers);
  const Names loads{{"Connection.poll", "/usr/lib/python3.11/multiprocessing/connection.py"},
                    {"_try_get_data", "/x/site-packages/torch/utils/data/dataloader.py"},
                    kUser};
  CHECK(wait_reason(loads, {.kernel = KernelWaitKind::other}).target == WaitTarget::helpers);
}

TEST_CASE("a wait for peers is recognised regardless of the helpers") {
  const Names barrier{{"barrier", "/x/site-packages/torch/distributed/distributed_c10d.py"}, kUser};
  const auto reason = wait_reason(barrier, {.kernel = KernelWaitKind::lock, .has_helpers = true});
  CHECK(reason.target == WaitTarget::peers);
  CHECK(reason.outside == OutsideWait::none);
}

TEST_CASE("the system call decides if Python's frames do not") {
  CHECK(wait_reason({kUser}, {.kernel = KernelWaitKind::child}).target == WaitTarget::helpers);
  CHECK(wait_reason({}, {.kernel = KernelWaitKind::lock}).target == WaitTarget::helpers);
  CHECK(wait_reason({kUser}, {.kernel = KernelWaitKind::other}).target == WaitTarget::nobody);
  CHECK(wait_reason({kUser}, {.kernel = KernelWaitKind::none}).target == WaitTarget::nobody);
}

TEST_CASE("waits for external events") {
  const auto outside = [](const Names& names, const WaitSigns& signs) {
    return wait_reason(names, signs).outside;
  };
  CHECK(outside({kUser}, {.kernel = KernelWaitKind::input}) == OutsideWait::input);
  CHECK(outside({kUser}, {.kernel = KernelWaitKind::accept}) == OutsideWait::connection);
  CHECK(outside({kUser}, {.kernel = KernelWaitKind::events}) == OutsideWait::event);
  CHECK(outside({kUser}, {.kernel = KernelWaitKind::events, .listens = true}) == OutsideWait::requests);
  // A loop that only its own process could wake up, in which nothing else runs.
  CHECK(outside({kUser}, {.kernel = KernelWaitKind::events, .alone = true}) == OutsideWait::none);
  CHECK(outside({kUser}, {.kernel = KernelWaitKind::events, .has_helpers = true, .alone = true}) ==
        OutsideWait::event);
  CHECK(outside({kUser}, {.kernel = KernelWaitKind::signal}) == OutsideWait::signal);
  // With child processes, a pipe is assumed to come from one of them.
  CHECK(outside({kUser}, {.kernel = KernelWaitKind::pipes}) == OutsideWait::input);
  CHECK(outside({kUser}, {.kernel = KernelWaitKind::pipes, .has_helpers = true}) == OutsideWait::none);
  CHECK(wait_reason({kUser}, {.kernel = KernelWaitKind::output}).target == WaitTarget::nobody);
  CHECK(wait_reason({kUser}, {.kernel = KernelWaitKind::output, .has_helpers = true}).target ==
        WaitTarget::helpers);
  // A single long sleep polls nothing.
  CHECK(outside({kUser}, {.kernel = KernelWaitKind::sleep}) == OutsideWait::none);
  CHECK(outside({kUser}, {.kernel = KernelWaitKind::sleep, .wakes = true}) == OutsideWait::polling);
  const Names serves{{"BaseServer.serve_forever", "/usr/lib/python3.11/socketserver.py"}, kUser};
  CHECK(outside(serves, {.kernel = KernelWaitKind::other}) == OutsideWait::event);
}

TEST_CASE("the processes that hold a pipe") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const base::ProcFs proc;
  char link[64] = {};
  const std::string path = "/proc/self/fd/" + std::to_string(ends[0]);
  REQUIRE(::readlink(path.c_str(), link, sizeof link - 1) > 0);
  CHECK(has_open(proc, ::getpid(), {link}));
  CHECK_FALSE(has_open(proc, ::getpid(), {"pipe:[0]"}));
  ::close(ends[0]);
  ::close(ends[1]);
  CHECK_FALSE(has_open(proc, ::getpid(), {link}));
}

TEST_CASE("who takes connections at a port") {
  const std::string tcp =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
      "   0: 0100007F:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 4711 1 0 100 0\n"
      "   1: 0100007F:733C 0100007F:D431 01 00000000:00000000 00:00000000 00000000  0  0 4712 1 0 20 4\n"
      "   2: 0100007F:733D 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 4713 1 0 100 0\n";
  CHECK(listening_at(tcp, 29500) == std::set<std::string>{"socket:[4711]"});
  CHECK(listening_at(tcp, 29502).empty());

  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  REQUIRE(::bind(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0);
  REQUIRE(::listen(fd, 1) == 0);
  REQUIRE(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  const base::ProcFs proc;
  CHECK(listener_of(proc, ::getpid(), ntohs(address.sin_port)) == ::getpid());
  ::close(fd);
  CHECK(listener_of(proc, ::getpid(), ntohs(address.sin_port)) == 0);
}

TEST_CASE("sockets that take connections, in the kernel's tables") {
  const std::string tcp =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
      "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 4711 1 0 100 0\n"
      "   1: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000  0  0 4712 1 0 20 4\n";
  CHECK(listens_in(tcp, {"socket:[4711]"}));
  CHECK(listens_in(tcp, {"socket:[1]", "socket:[4711]"}));
  CHECK_FALSE(listens_in(tcp, {"socket:[4712]"}));
  CHECK_FALSE(listens_in(tcp, {}));
  const std::string local =
      "Num       RefCount Protocol Flags    Type St Inode Path\n"
      "ffff9c0: 00000002 00000000 00010000 0001 01 815 /run/a.sock\n"
      "ffff9c8: 00000003 00000000 00000000 0001 03 816\n";
  CHECK(listens_in(local, {"socket:[815]"}));
  CHECK_FALSE(listens_in(local, {"socket:[816]"}));
}
