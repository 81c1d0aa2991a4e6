#include "common/base/os/procfs.h"
#include "launcher/watch/rank_watch.h"

#include <doctest/doctest.h>

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

constexpr base::MonoNs kS = 1'000'000'000;

// A child without Python that sleeps in read(2), and in pause(2) once the test has written.
class Sleeper {
 public:
  Sleeper() {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[1]);
      char byte = 0;
      (void)!::read(ends[0], &byte, 1);
      for (;;) {
        ::pause();
      }
    }
    ::close(ends[0]);
    write_ = ends[1];
    await("0 0x");  // read, x86-64
  }
  ~Sleeper() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(write_);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  void wake() {
    REQUIRE(::write(write_, "x", 1) == 1);
    await("34 ");  // pause
  }
  base::Pid pid() const { return pid_; }

 private:
  void await(const std::string& syscall) const {
    for (int i = 0; i < 20'000 && !base::ProcFs().text(pid_, "syscall").starts_with(syscall); ++i) {
      (void)::poll(nullptr, 0, 1);
    }
    REQUIRE(base::ProcFs().text(pid_, "syscall").starts_with(syscall));
  }

  base::Pid pid_ = 0;
  int write_ = -1;
};

std::vector<Descendant> no_helpers() {
  return {};
}

}  // namespace

TEST_CASE("a process without Python is still as long as it sleeps in one system call") {
  Sleeper child;
  RankWatch watch(3, child.pid(), 10 * kS, 1e7, {});
  watch.sample(11 * kS, no_helpers);  // the first sample shows something new
  CHECK(watch.last_progress() == 11 * kS);
  watch.sample(12 * kS, no_helpers);
  watch.sample(20 * kS, no_helpers);
  CHECK(watch.last_progress() == 11 * kS);
  CHECK(watch.still_s(20 * kS) == 9);
  child.wake();
  watch.sample(21 * kS, no_helpers);
  CHECK(watch.last_progress() == 21 * kS);
  watch.sample(25 * kS, no_helpers);
  const model::RankObservation seen = watch.observe(25 * kS);
  CHECK(seen.rank == 3);
  CHECK(seen.pid == child.pid());
  CHECK(seen.state == 'S');
  CHECK(seen.still_s == 4);
  CHECK_FALSE(seen.has_python);
  CHECK(seen.cpu_share < 0.1);
  watch.forgive(3 * kS);
  CHECK(watch.still_s(25 * kS) == 1);
}

TEST_CASE("the helpers of a rank are sampled only once the rank has been still for a while") {
  Sleeper child;
  RankWatch watch(0, child.pid(), 0, 50, {});
  int asked = 0;
  const auto helpers = [&] {
    ++asked;
    return std::vector<Descendant>();
  };
  for (int s = 1; s <= 5; ++s) {
    watch.sample(s * kS, helpers);
  }
  CHECK(asked == 0);
  watch.sample(6 * kS, helpers);
  CHECK(asked == 1);
}

TEST_CASE("a process that has ended changes nothing") {
  base::Pid pid = 0;
  {
    const Sleeper child;
    pid = child.pid();
  }
  RankWatch watch(0, pid, 7 * kS, 1e7, {});
  watch.sample(8 * kS, no_helpers);
  CHECK(watch.observe(8 * kS).state == '?');
}
