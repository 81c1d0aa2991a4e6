// Looks at native stacks, and what follows of them for a rank that computes.
#include "launcher/processes/native_site.h"
#include "launcher/watch/rank_watch.h"

#include <doctest/doctest.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

constexpr base::MonoNs kLookSecond = 1'000'000'000;

model::Frame own_frame(std::string func, uint64_t pc) {
  return {.func = std::move(func), .module = "solver", .pc = pc};
}
model::Frame library_frame(uint64_t pc) {
  return {.func = "ucp_worker_progress", .module = "libucp.so.0", .pc = pc};
}
NativeLook inside_of(std::string func, uint64_t pc) {
  return {.frames = {own_frame(std::move(func), pc), own_frame("main", 900)}};
}
NativeLook calling(uint64_t from, uint64_t inner) {
  return {.frames = {library_frame(inner), own_frame("poll", from), own_frame("main", 900)}};
}

// A child that computes without end.
struct Computer {
  base::Pid pid = 0;
  Computer() {
    pid = ::fork();
    if (pid == 0) {
      for (volatile unsigned n = 0;; n = n + 1) {
      }
    }
  }
  ~Computer() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  Computer(const Computer&) = delete;
  Computer& operator=(const Computer&) = delete;
};

// A rank that is sampled once a second, with a look every `look_every` samples.
double still_after_looks(const std::vector<NativeLook>& looks, int seconds) {
  const Computer child;
  base::MonoNs now = kLookSecond;
  RankWatch rank(1, child.pid, now, 8, {});
  size_t next = 0;
  for (int i = 0; i < seconds; ++i) {
    now += kLookSecond;
    rank.sample(now, [] { return std::vector<Descendant>(); });
    if (rank.wants_look(now) > 0 && !looks.empty()) {
      rank.looked(now, looks[next++ % looks.size()]);
    }
  }
  return rank.still_s(now);
}

}  // namespace

TEST_CASE("a native thread stays where it is within one function, and within one of its calls") {
  NativeSite site;
  CHECK(site.moves(1, inside_of("wait_flag", 10)));
  CHECK_FALSE(site.moves(2, inside_of("wait_flag", 14)));
  CHECK_FALSE(site.moves(3, inside_of("wait_flag", 12)));
  CHECK(site.moves(4, inside_of("step", 12)));
  CHECK(site.moves(5, calling(50, 1000)));
  CHECK_FALSE(site.moves(6, calling(50, 2000)));
  CHECK(site.moves(7, calling(60, 1000)));  // another call of the same function
  CHECK(site.moves(8, {.frames = {own_frame("poll", 1), own_frame("main", 901)}}));
}

TEST_CASE("a thread that circles stays in its function, whatever it calls") {
  NativeSite site;
  NativeLook look = calling(50, 1000);
  look.circles = true;
  CHECK(site.moves(1, look));
  look.frames[1].pc = 60;
  CHECK_FALSE(site.moves(2, look));
  look.frames[2].pc = 901;
  CHECK(site.moves(3, look));
}

TEST_CASE("a thread that has circled still does where a look sees too few states, until it is elsewhere") {
  NativeSite site;
  NativeLook look = inside_of("wait_flag", 10);
  look.circles = true;
  CHECK(site.moves(1, look));
  CHECK_FALSE(site.moves(2, inside_of("wait_flag", 12)));
  CHECK(site.circles());
  CHECK(site.moves(3, inside_of("step", 12)));
  CHECK_FALSE(site.circles());
}

TEST_CASE("looks that have failed show nothing, and what was known becomes old; a late look does not") {
  NativeSite site;
  CHECK(site.moves(1, inside_of("wait_flag", 10)));
  CHECK_FALSE(site.moves(2, {}));
  CHECK(site.known(2));
  CHECK_FALSE(site.moves(2, {.given_up = true}));
  CHECK(site.known(2));
  CHECK_FALSE(site.known(1));
  CHECK_FALSE(site.moves(3, inside_of("wait_flag", 10)));
}

TEST_CASE("a native rank that computes in one place stands still, in several it does not") {
  CHECK(still_after_looks({inside_of("wait_flag", 10), inside_of("wait_flag", 12)}, 20) > 15);
  CHECK(still_after_looks({inside_of("a", 10), inside_of("b", 10)}, 20) < 3);
  CHECK(still_after_looks({}, 20) == 0);              // no looks: CPU time is progress
  CHECK(still_after_looks({NativeLook{}}, 20) == 0);  // nor from looks that fail
}

TEST_CASE("who waits for the answer gets looks at once, and a few of one place as proof") {
  const Computer child;
  base::MonoNs now = kLookSecond;
  RankWatch rank(1, child.pid, now, 300, {});
  rank.hurry();
  const auto step = [&](const NativeLook& look) {
    now += kLookSecond / 2;
    rank.sample(now, [] { return std::vector<Descendant>(); });
    if (rank.wants_look(now) > 0) {
      rank.looked(now, look);
    }
  };
  const NativeLook sends = {.frames = {{.func = "PMPI_Send", .module = "libmpi.so.40", .pc = 7},
                                       own_frame("exchange", 50),
                                       own_frame("main", 900)}};
  step(sends);
  step(sends);  // the first look
  CHECK(rank.wants_more_looks(now, 1));
  step(sends);
  CHECK(rank.signs().loops);  // two looks are no proof
  step(sends);
  CHECK_FALSE(rank.signs().loops);
  CHECK_FALSE(rank.wants_more_looks(now, 1));
  CHECK(rank.wants_more_looks(now, 10));
  CHECK(rank.still_s(now) >= 1);
  step(inside_of("step", 10));
  CHECK(rank.signs().loops);
  CHECK(rank.still_s(now) == 0);
}
