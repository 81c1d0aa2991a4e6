#include "launcher/os/event_loop.h"

#include <doctest/doctest.h>

#include <string>
#include <sys/epoll.h>
#include <unistd.h>

using xpurun::launcher::EventLoop;

TEST_CASE("timers fire in the order of their times, then of their creation") {
  auto loop = EventLoop::create();
  REQUIRE(loop);
  std::string order;
  loop->at(200, [&] { order += 'c'; });
  loop->at(100, [&] { order += 'a'; });
  loop->at(100, [&] { order += 'b'; });
  const auto gone = loop->at(150, [&] { order += 'x'; });
  loop->cancel(gone);
  loop->at(300, [&] { loop->stop(); });
  REQUIRE(loop->run());
  CHECK(order == "abc");
}

TEST_CASE("a handler may remove itself and others") {
  auto loop = EventLoop::create();
  REQUIRE(loop);
  int a[2];
  int b[2];
  REQUIRE(::pipe(a) == 0);
  REQUIRE(::pipe(b) == 0);
  int calls = 0;
  const auto handler = [&](uint32_t) {
    ++calls;
    loop->remove(a[0]);
    loop->remove(b[0]);
    loop->after(0.01, [&] { loop->stop(); });
  };
  REQUIRE(loop->add(a[0], EPOLLIN, handler));
  REQUIRE(loop->add(b[0], EPOLLIN, handler));
  REQUIRE(::write(a[1], "x", 1) == 1);
  REQUIRE(::write(b[1], "x", 1) == 1);
  REQUIRE(loop->run());
  CHECK(calls == 1);
  for (int fd : {a[0], a[1], b[0], b[1]}) {
    ::close(fd);
  }
}
