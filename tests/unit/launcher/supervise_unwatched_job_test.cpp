#include "launcher/watch/unwatched_job.h"

#include <doctest/doctest.h>

using namespace xpurun::launcher;

namespace {

RunOptions asked_for(double timeout_s) {
  RunOptions o;
  o.hang_timeout_s = timeout_s;
  o.origins.push_back({"hang-timeout", "10s", "command line"});
  return o;
}

}  // namespace

TEST_CASE("a job that cannot be watched is reported once, after the timeout") {
  UnwatchedJob job(asked_for(10));
  CHECK_FALSE(job.look(9, false, "pypy3"));
  CHECK(job.look(10, false, "pypy3")->starts_with("no hang detection: pypy3 is not CPython"));
  CHECK_FALSE(job.look(11, false, "pypy3"));
}

TEST_CASE("no message for a watched job, or without hang detection by the user") {
  UnwatchedJob watched(asked_for(10));
  CHECK_FALSE(watched.look(1, true, "python3"));
  CHECK_FALSE(watched.look(20, false, "python3"));
  UnwatchedJob off(asked_for(0));
  CHECK_FALSE(off.look(20, false, "make"));
  UnwatchedJob by_default(RunOptions{});
  CHECK_FALSE(by_default.look(1000, false, "make"));
}
