#include "commands/selftest/other_work.h"

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

namespace xpurun::launcher {

TEST_CASE("selftest other work: the first lines of /proc/stat") {
  const auto use = cpu_use_from_stat(
      "cpu  100 20 30 4000 500 6 7 8 90 10\ncpu0 50 10 15 2000 250 3 3 4 45 5\ncpu1 50 10 15 2000 250 3 4 4 "
      "45 5\n"
      "intr 5 cpu 3\n",
      100);
  REQUIRE(use);
  CHECK(use->cpus == 2);
  CHECK(use->stolen_s == doctest::Approx(0.08));
  CHECK(use->busy_s == doctest::Approx(1.71));  // without idle, iowait and the guests' part of user
}

TEST_CASE("selftest other work: damaged text is an error") {
  for (const char* text :
       {"", "cpu  1 2 3\ncpu0 1 2 3\n", "cpu  a b c d e f g h\ncpu0\n", "cpu0 1 2 3 4 5 6 7 8\n"}) {
    CHECK_FALSE(cpu_use_from_stat(text, 100));
  }
}

TEST_CASE("selftest other work: the share of what the trial did not use") {
  const CpuUse begin{.busy_s = 100, .children_s = 10, .cpus = 2, .at = 0};
  const auto after = [](double busy_s, double children_s) {
    return CpuUse{.busy_s = busy_s, .children_s = children_s, .cpus = 2, .at = base::s_to_ns(10)};
  };
  CHECK(share_of_others(begin, after(108, 18)) == doctest::Approx(0));
  CHECK(share_of_others(begin, after(118, 18)) == doctest::Approx(0.5));
  CHECK(share_of_others(begin, after(104, 18)) == 0);  // rounding of the kernel's counters
  CHECK(share_of_others(begin, begin) == 0);           // no time has passed
  CpuUse stolen = after(110, 18);
  stolen.stolen_s = 2;
  CHECK(share_of_others(begin, stolen) == doctest::Approx(0.1));
  CHECK(share_of_hypervisor(begin, stolen) == doctest::Approx(0.1));
}

TEST_CASE("selftest other work: a child's time is counted when it has ended") {
  const auto begin = cpu_use_now();
  REQUIRE(begin);
  const pid_t child = ::fork();
  if (child == 0) {
    for (long i = 0; i < 60'000'000; ++i) {
      asm volatile("" : "+r"(i));  // not to be left out
    }
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  const auto end = cpu_use_now();
  REQUIRE(end);
  CHECK(end->children_s > begin->children_s);
  CHECK(end->busy_s >= begin->busy_s);
  CHECK(end->at > begin->at);
}

}  // namespace xpurun::launcher
