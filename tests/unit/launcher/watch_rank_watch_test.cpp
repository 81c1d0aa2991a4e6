#include "common/base/os/procfs.h"
#include "launcher/watch/rank_watch.h"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string_view>
#include <sys/prctl.h>
#include <sys/ptrace.h>
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

// A child that computes without end.
class Spinner {
 public:
  Spinner() : pid_(::fork()) {
    while (pid_ == 0) {
      asm volatile("");
    }
  }
  ~Spinner() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Spinner(const Spinner&) = delete;
  Spinner& operator=(const Spinner&) = delete;
  base::Pid pid() const { return pid_; }

 private:
  base::Pid pid_;
};

// A child that writes without end, in pieces of this size.
class Writer {
 public:
  explicit Writer(size_t piece) {
    pid_ = ::fork();
    if (pid_ == 0) {
      const std::vector<char> text(piece, 'x');
      const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
      while (::write(nowhere, text.data(), text.size()) > 0) {
      }
      ::_exit(1);
    }
  }
  ~Writer() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Until that many bytes more are written.
  void await(uint64_t bytes) const {
    const base::ProcFs proc;
    const uint64_t from = proc.io(pid_).write_chars;
    for (int i = 0; i < 60'000 && proc.io(pid_).write_chars < from + bytes; ++i) {
      (void)::poll(nullptr, 0, 1);
    }
    REQUIRE(proc.io(pid_).write_chars >= from + bytes);
  }
  base::Pid pid() const { return pid_; }

 private:
  base::Pid pid_ = 0;
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

TEST_CASE("what a library prints inside of a call is no progress, what it moves there is") {
  const auto inside = [](base::Pid) { return std::optional(NativeCalls{.steps = 7, .inside = true}); };
  constexpr uint64_t kEnough = 4 << 20;
  for (const size_t piece : {size_t{80}, size_t{64} << 10}) {
    const Writer child(piece);
    RankWatch watch(0, child.pid(), 0, 1e7, inside);
    for (int s = 1; s <= 5; ++s) {
      child.await(kEnough);
      watch.sample(s * kS, no_helpers);
    }
    CHECK((watch.last_progress() < 3 * kS) == (piece < 1024));
    CHECK((watch.observe(5 * kS).io_bytes_per_s < 1) == (piece < 1024));
  }
}

TEST_CASE("a rank that a helper of xpurun holds for a look is not held by a debugger") {
  Sleeper child;
  char own[16] = {};
  ::prctl(PR_GET_NAME, own);
  REQUIRE(::ptrace(PTRACE_SEIZE, child.pid(), nullptr, nullptr) == 0);
  REQUIRE(::ptrace(PTRACE_INTERRUPT, child.pid(), nullptr, nullptr) == 0);
  REQUIRE(::waitpid(child.pid(), nullptr, __WALL) == child.pid());
  for (const char* name : {"xpurun-stackdum", "gdb"}) {
    CAPTURE(name);
    ::prctl(PR_SET_NAME, name);
    RankWatch watch(0, child.pid(), 10 * kS, 1e7, {});
    watch.sample(11 * kS, no_helpers);
    CHECK((watch.observe(11 * kS).state == 't') == (std::string_view(name) == "gdb"));
  }
  ::prctl(PR_SET_NAME, own);
  ::ptrace(PTRACE_DETACH, child.pid(), nullptr, nullptr);
}

TEST_CASE("a look at a rank that computes is no progress of the rank") {
  const Spinner child;
  RankWatch watch(0, child.pid(), 10 * kS, 1e7, {});
  watch.sample(11 * kS, no_helpers);
  watch.looked(12 * kS, {.frames = {{.func = "MPI_Barrier", .module = "libmpi.so.40", .pc = 16}}});
  CHECK(watch.shows_by_stack());
  watch.sample(13 * kS, no_helpers);
  REQUIRE(watch.last_progress() == 11 * kS);
  char own[16] = {};
  ::prctl(PR_GET_NAME, own);
  ::prctl(PR_SET_NAME, "xpurun-stackdum");
  REQUIRE(::ptrace(PTRACE_SEIZE, child.pid(), nullptr, nullptr) == 0);
  REQUIRE(::ptrace(PTRACE_INTERRUPT, child.pid(), nullptr, nullptr) == 0);
  REQUIRE(::waitpid(child.pid(), nullptr, __WALL) == child.pid());
  watch.sample(14 * kS, no_helpers);
  ::ptrace(PTRACE_DETACH, child.pid(), nullptr, nullptr);
  ::prctl(PR_SET_NAME, own);
  watch.sample(15 * kS, no_helpers);
  CHECK(watch.last_progress() == 11 * kS);
}

TEST_CASE("a native thread that is on a CPU for moments only makes no progress") {
  const Spinner child;
  const auto runs_for = [&child](uint64_t ns) {
    const auto ran_ns = [&child] { return base::ProcFs().main_run_time(child.pid()).cpu_ns; };
    const uint64_t before = ran_ns();
    while (ran_ns() < before + ns) {
      (void)::poll(nullptr, 0, 1);
    }
  };
  RankWatch watch(0, child.pid(), 10 * kS, 1e7, {});
  runs_for(1);
  watch.sample(11 * kS, no_helpers);
  // By this clock 1,000 s, of which the thread has run a small part.
  runs_for(1);
  watch.sample(1011 * kS, no_helpers);
  CHECK(watch.last_progress() == 11 * kS);
  // By this clock a millisecond, in which the thread was always ready.
  runs_for(2'000'000);
  watch.sample(1011 * kS + 1'000'000, no_helpers);
  CHECK(watch.last_progress() == 1011 * kS + 1'000'000);
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
