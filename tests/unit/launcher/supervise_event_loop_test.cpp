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

TEST_CASE("a simulated clock jumps from timer to timer and lets ready descriptors go first") {
  auto loop = EventLoop::create_simulated(1'000);
  REQUIRE(loop);
  int pipe_ends[2];
  REQUIRE(::pipe(pipe_ends) == 0);
  std::string order;
  REQUIRE(loop->add(pipe_ends[0], EPOLLIN, [&](uint32_t) {
    order += 'r';
    loop->remove(pipe_ends[0]);
  }));
  REQUIRE(::write(pipe_ends[1], "x", 1) == 1);
  loop->after(3600, [&] {
    order += 't';
    CHECK(loop->now() == 1'000 + 3600 * int64_t{1'000'000'000});
  });
  REQUIRE(loop->run());  // returns: nothing is left
  CHECK(order == "rt");
  for (int fd : pipe_ends) {
    ::close(fd);
  }
}
