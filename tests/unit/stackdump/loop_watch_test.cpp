#include "stackdump/ptrace/loop_watch.h"

#include <doctest/doctest.h>

#include <atomic>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace xpurun;
using namespace xpurun::stackdump;

namespace {

constexpr uint64_t kMs = 1'000'000;

std::vector<LoopState> looks_at(size_t count, uint64_t states, uint64_t ran_each) {
  std::vector<LoopState> out;
  for (size_t i = 0; i < count; ++i) {
    out.push_back({.state = 1 + i * 7 % states, .ran_ns = i * ran_each});
  }
  return out;
}

template <typename Body>
bool child_circles(Body body) {
  const base::Pid pid = ::fork();
  if (pid == 0) {
    body();
    ::_exit(0);
  }
  ::usleep(20'000);
  LiveMemory memory(pid);
  const auto maps = ProcMaps::read(pid);
  REQUIRE(maps);
  const bool out = main_thread_circles(pid, memory, *maps);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  return out;
}

// On a busy machine, a look at a child that gets no CPU proves nothing; one of many finds the child on a CPU.
template <typename Body>
bool is_found_to_circle(Body body) {
  constexpr int kLooks = 50;
  bool found = false;
  for (int i = 0; i < kLooks && !found; ++i) {
    found = child_circles(body);
  }
  return found;
}

}  // namespace

TEST_CASE("a thread circles where most looks meet states that it had before") {
  CHECK(comes_back(looks_at(24, 5, kMs)));
  CHECK_FALSE(comes_back(looks_at(24, 1000, kMs)));  // each look meets another state
  CHECK_FALSE(comes_back(looks_at(6, 2, kMs)));      // too few looks
  CHECK_FALSE(comes_back(looks_at(24, 5, 100)));     // it has hardly run in between
  CHECK_FALSE(comes_back({}));
}

TEST_CASE("a loop that waits for memory circles, one that counts does not, and one that sleeps is none") {
  static std::atomic<int> flag{0};
  CHECK(is_found_to_circle([] {
    while (flag.load() == 0) {
    }
  }));
  CHECK_FALSE(child_circles([] {
    for (volatile uint64_t n = 0; flag.load() == 0; n = n + 1) {
    }
  }));
  CHECK_FALSE(child_circles([] { ::pause(); }));
}
