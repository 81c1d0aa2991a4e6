// A rank that changes between Python and native code.
#include "common/base/os/io.h"
#include "launcher/watch/rank_watch.h"

#include <doctest/doctest.h>

#include <functional>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace xpurun;
using launcher::RankWatch;

namespace {

// python3 in a function until a byte arrives, then exec of a program without Python.
constexpr const char* kScript =
    "import os, sys\n"
    "def here():\n"
    "  os.read(0, 1)\n"
    "here()\n"
    "os.execvp('sleep', ['sleep', '1000'])\n";

// Native code that computes for a second, then python3 in a function for ever.
constexpr const char* kLate =
    "import os\n"
    "def here():\n"
    "  os.read(0, 1)\n"
    "here()\n";

void compute_for_a_second() {
  const base::MonoNs end = base::mono_ns() + 1'000'000'000;
  while (base::mono_ns() < end) {
  }
}

struct Child {
  base::Pid pid = -1;
  int input = -1;

  explicit Child(
      const char* script = kScript, void (*before)() = [] {}) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    input = ends[1];
    pid = ::fork();
    if (pid == 0) {
      ::dup2(ends[0], 0);
      ::close(ends[0]);
      ::close(ends[1]);
      before();
      ::execlp("python3", "python3", "-c", script, nullptr);
      ::_exit(127);
    }
    ::close(ends[0]);
  }
  ~Child() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    ::close(input);
  }
};

bool eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < 6000; ++i) {
    if (holds()) {
      return true;
    }
    ::usleep(10'000);
  }
  return false;
}

}  // namespace

TEST_CASE("a rank that can no longer be read has no position instead of its last position") {
  const Child child;
  const base::MonoNs begin = base::mono_ns();
  RankWatch watch(0, child.pid, begin, /*hang_timeout_s=*/600, {});
  const auto sample = [&] {
    watch.sample(base::mono_ns(), [] { return std::vector<xpurun::launcher::Descendant>(); });
  };
  REQUIRE(eventually([&] {
    sample();
    return watch.position().function == "here";
  }));
  REQUIRE(::write(child.input, "x", 1) == 1);
  REQUIRE(eventually([&] { return base::ProcFs().text(child.pid, "comm") == "sleep"; }));
  sample();
  sample();
  const model::RankObservation seen = watch.observe(base::mono_ns());
  CHECK_FALSE(seen.has_python);
  CHECK(seen.function.empty());
  CHECK(seen.file.empty());
  CHECK(seen.line == 0);
}

TEST_CASE("a rank that has computed before its Python ran stands still in Python, and needs no looks") {
  const Child child(kLate, compute_for_a_second);
  RankWatch watch(0, child.pid, base::mono_ns(), /*hang_timeout_s=*/1, {});
  const auto sample = [&] {
    watch.sample(base::mono_ns(), [] { return std::vector<xpurun::launcher::Descendant>(); });
  };
  bool computed = false;
  REQUIRE(eventually([&] {
    sample();
    computed = computed || watch.wants_look(base::mono_ns() + 1'000'000'000) > 0;
    return watch.position().function == "here";
  }));
  CHECK(computed);
  REQUIRE(eventually([&] {
    sample();
    return watch.still_s(base::mono_ns()) > 0.5;
  }));
  CHECK(watch.wants_look(base::mono_ns() + 1'000'000'000) == 0);
}
