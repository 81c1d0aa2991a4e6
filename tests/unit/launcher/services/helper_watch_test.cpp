// A rank and its processes in a /proc made of files: which of them the rank waits for, and whether they work.
#include "launcher/watch/helper_watch.h"

#include "common/base/os/io.h"
#include "common/base/os/temporary_directory.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <sys/syscall.h>
#include <unistd.h>

using namespace xpurun;
using namespace xpurun::launcher;
using model::HelperLife;
using model::OutsideWait;

namespace {

constexpr base::MonoNs kTimeout = 60'000'000'000;
constexpr base::Pid kRank = 5'000'010;
constexpr base::Pid kFirst = 5'000'011;
constexpr base::Pid kSecond = 5'000'012;
constexpr base::Pid kThird = 5'000'013;

// What the kernel shows of one process.
struct Shown {
  char state = 'S';
  long call = SYS_futex;  // -1: it runs
  uint64_t argument = 0;  // the first one of the call
  uint64_t ticks = 0;     // CPU time
  uint64_t written = 0;   // bytes
  uint64_t switches = 0;
  std::map<int, std::string> descriptors;
};

class HelperScene {
  base::TemporaryDirectory root_ = *base::TemporaryDirectory::create("xpurun-helpers-");

 public:
  std::map<base::Pid, Shown> shown = {{kRank, {}}};
  std::vector<Descendant> processes;
  std::map<base::Tid, std::pair<std::string, uint64_t>> threads;  // of the rank: name and CPU time
  HelperWatch watch{kRank, kTimeout, base::ProcFs(root_.path())};

  Shown& start(Descendant process, const Shown& first = {}) {
    processes.push_back(std::move(process));
    return shown[processes.back().pid] = first;
  }
  Shown& rank() { return shown[kRank]; }
  void look(double at_s) {
    write();
    watch.look(base::s_to_ns(100 + at_s), nullptr, processes);
  }
  void watch_sleep(double at_s) {
    write();
    watch.watch_sleep(base::s_to_ns(100 + at_s));
  }
  // Ten samples in ten seconds; `change` is called before each.
  void look_for_a_while(const std::function<void()>& change) {
    for (int second = 0; second < 10; ++second) {
      change();
      look(second);
    }
  }
  std::vector<base::Pid> observed() const {
    std::vector<base::Pid> out;
    for (const auto& o : watch.observe(base::s_to_ns(110))) {
      out.push_back(o.pid);
    }
    return out;
  }

 private:
  void write() {
    std::filesystem::remove_all(root_.path());
    for (const auto& [tid, thread] : threads) {
      const std::string dir = fmt::format("{}/{}/task/{}", root_.path(), kRank, tid);
      REQUIRE(base::make_dirs(dir));
      put(dir + "/stat", stat_of(tid, thread.first, 'R', thread.second));
    }
    for (const auto& [pid, p] : shown) {
      const std::string dir = fmt::format("{}/{}", root_.path(), pid);
      REQUIRE(base::make_dirs(fmt::format("{}/task/{}", dir, pid)));
      REQUIRE(base::make_dirs(dir + "/fd"));
      put(dir + "/stat", stat_of(pid, "p", p.state, p.ticks));
      put(dir + "/syscall",
          p.call < 0 ? "running" : fmt::format("{} {:#x} 0x0 0x0 0x0 0x0 0x0 0x0 0x0", p.call, p.argument));
      put(dir + "/io", fmt::format("rchar: 0\nwchar: {}\n", p.written));
      put(fmt::format("{}/task/{}/status", dir, pid),
          fmt::format("voluntary_ctxt_switches:\t{}\n", p.switches));
      for (const auto& [fd, target] : p.descriptors) {
        std::filesystem::create_symlink(target, fmt::format("{}/fd/{}", dir, fd));
      }
    }
  }
  static std::string stat_of(base::Pid pid, const std::string& name, char state, uint64_t ticks) {
    std::string stat = fmt::format("{} ({}) {} 1", pid, name, state);
    for (int field = 5; field <= 52; ++field) {
      stat += fmt::format(" {}", field == 14 ? ticks : 0);
    }
    return stat;
  }
  static void put(const std::string& path, const std::string& text) {
    REQUIRE(base::write_file_atomic(path, text));
  }
};

// A tenth of a second of CPU time in each second.
uint64_t busy_ticks() {
  return static_cast<uint64_t>(::sysconf(_SC_CLK_TCK)) / 5;
}

const Shown kSleeps = {.call = SYS_nanosleep};

}  // namespace

TEST_CASE("the process that wait4() names is the awaited one") {
  HelperScene s;
  s.rank() = {.call = SYS_wait4, .argument = static_cast<uint64_t>(kSecond)};
  s.start({.pid = kFirst, .parent = kRank});
  Shown& awaited = s.start({.pid = kSecond, .parent = kRank, .name = "encoder"});
  s.start({.pid = kThird, .parent = kSecond});
  SUBCASE("it computes") {
    s.look_for_a_while([&] { awaited.ticks += busy_ticks(); });
    CHECK(s.watch.life() == HelperLife::working);
    CHECK(s.observed() == std::vector{kSecond, kThird});
    const auto first = s.watch.observe(base::s_to_ns(110)).at(0);
    CHECK(first.name == "encoder");
    CHECK(first.awaited);
    CHECK(first.cpu_share == doctest::Approx(0.2).epsilon(0.05));
  }
  SUBCASE("it writes files") {
    s.look_for_a_while([&] { awaited.written += 2 << 20; });
    CHECK(s.watch.life() == HelperLife::working);
  }
  SUBCASE("its own child computes") {
    s.look_for_a_while([&] { s.shown[kThird].ticks += busy_ticks(); });
    CHECK(s.watch.life() == HelperLife::working);
    CHECK(s.observed() == std::vector{kThird, kSecond});
  }
  SUBCASE("only a process computes that cannot end the wait") {
    s.look_for_a_while([&] { s.shown[kFirst].ticks += busy_ticks(); });
    CHECK(s.watch.life() == HelperLife::still);
  }
}

TEST_CASE("a wait for any child waits for all children") {
  HelperScene s;
  s.rank() = {.call = SYS_wait4, .argument = static_cast<uint64_t>(-1)};
  s.start({.pid = kFirst, .parent = kRank});
  Shown& other = s.start({.pid = kSecond, .parent = kRank});
  s.look_for_a_while([&] { other.ticks += busy_ticks(); });
  CHECK(s.watch.life() == HelperLife::working);
  CHECK(s.observed() == std::vector{kSecond, kFirst});
}

TEST_CASE("a wait for programs that only sleep is a wait for something outside") {
  HelperScene s;
  s.rank() = {.call = SYS_wait4, .argument = static_cast<uint64_t>(kFirst)};
  SUBCASE("all sleep") {
    s.start({.pid = kFirst, .parent = kRank}, kSleeps);
    s.start({.pid = kSecond, .parent = kFirst}, {.call = SYS_accept4});
    s.start({.pid = kThird, .parent = kRank}, {.call = -1});  // not awaited
    s.look(0);
    CHECK(s.watch.outside() == OutsideWait::child);
  }
  SUBCASE("one runs for a moment") {
    s.start({.pid = kFirst, .parent = kRank}, kSleeps);
    s.look(0);
    s.look(1);
    s.shown[kFirst].call = -1;
    s.look(2);
    CHECK(s.watch.outside() == OutsideWait::child);
  }
  SUBCASE("one runs") {
    s.start({.pid = kFirst, .parent = kRank}, kSleeps);
    s.start({.pid = kSecond, .parent = kFirst}, {.call = -1});
    s.look(0);
    CHECK(s.watch.outside() == OutsideWait::none);
  }
  SUBCASE("one waits for a lock") {
    s.start({.pid = kFirst, .parent = kRank}, {.call = SYS_futex});
    s.look(0);
    CHECK(s.watch.outside() == OutsideWait::none);
  }
  SUBCASE("one is Python, which may hang in a sleep") {
    s.start({.pid = kFirst, .parent = kRank, .python = true}, kSleeps);
    s.look(0);
    CHECK(s.watch.outside() == OutsideWait::none);
  }
}

TEST_CASE("the process at the other end of a pipe is the awaited one") {
  HelperScene s;
  s.rank() = {.call = SYS_read, .argument = 5, .descriptors = {{5, "pipe:[77]"}}};
  s.start({.pid = kFirst, .parent = kRank}, {.descriptors = {{1, "pipe:[78]"}}});
  Shown& writer =
      s.start({.pid = kSecond, .parent = kRank}, {.descriptors = {{0, "/dev/null"}, {1, "pipe:[77]"}}});
  s.look_for_a_while([&] { writer.ticks += busy_ticks(); });
  CHECK(s.watch.life() == HelperLife::working);
  CHECK(s.observed() == std::vector{kSecond});
  // The holders are looked up again after five seconds.
  s.shown[kFirst].descriptors = {{1, "pipe:[77]"}};
  writer.descriptors.clear();
  s.look(10);
  CHECK(s.observed() == std::vector{kSecond});
  s.look(16);
  CHECK(s.observed() == std::vector{kFirst});
}

TEST_CASE("without an awaited process all count; the most active come first, at most four") {
  HelperScene s;
  for (base::Pid pid = kFirst; pid < kFirst + 6; ++pid) {
    s.start({.pid = pid, .parent = kRank, .forked = pid == kThird});
  }
  s.look_for_a_while([&] { s.shown[kFirst + 5].ticks += busy_ticks(); });
  CHECK(s.watch.life() == HelperLife::working);
  CHECK(s.observed() == std::vector{kFirst + 5, kThird, kFirst, kSecond});
  CHECK_FALSE(s.watch.observe(base::s_to_ns(110)).at(0).awaited);
}

TEST_CASE("threads in C that compute raise doubt, those that spin for a GPU do not") {
  HelperScene s;
  std::string name = "tokenizer";
  HelperLife expected = HelperLife::stirring;
  SUBCASE("of a tokeniser") {}
  SUBCASE("of NCCL") {
    name = "NCCL Progress 1";
    expected = HelperLife::still;
  }
  uint64_t ticks = 0;
  s.look_for_a_while([&] { s.threads = {{kRank + 100, {name, ticks += busy_ticks()}}}; });
  CHECK(s.watch.life() == expected);
}

TEST_CASE("ended processes are left out") {
  HelperScene s;
  s.start({.pid = kFirst, .parent = kRank});
  s.start({.pid = kSecond, .parent = kRank});
  s.start({.pid = kThird, .parent = kRank});
  s.look(0);
  CHECK(s.observed().size() == 3);
  s.shown[kFirst].state = 'Z';
  s.shown.erase(kSecond);
  s.look(1);
  CHECK(s.observed() == std::vector{kThird});
}

TEST_CASE("a main thread that wakes from sleeps again and again polls for something outside") {
  HelperScene s;
  s.rank() = kSleeps;
  const auto sleep_for = [&](int seconds, uint64_t wakes) {
    for (int i = 0; i < seconds; ++i) {
      s.rank().switches += wakes;
      s.watch_sleep(i);
    }
    s.look(seconds);
  };
  SUBCASE("it wakes") {
    sleep_for(4, 1);
    CHECK(s.watch.outside() == OutsideWait::polling);
    s.watch.forget();
    CHECK(s.watch.outside() == OutsideWait::none);
    s.look(60);
    CHECK(s.watch.outside() == OutsideWait::none);
  }
  SUBCASE("one sleep is no loop") {
    sleep_for(4, 0);
    CHECK(s.watch.outside() == OutsideWait::none);
  }
  SUBCASE("it wakes once, late, on a busy machine") {
    s.watch_sleep(0);
    s.rank().switches += 1;
    s.look(9);
    CHECK(s.watch.outside() == OutsideWait::polling);
  }
  SUBCASE("a dump wakes it, which does not count") {
    s.watch_sleep(0);
    s.watch_sleep(1);
    s.watch.held();
    s.rank().switches += 1;
    s.watch_sleep(9);
    s.look(91);
    CHECK(s.watch.outside() == OutsideWait::none);
  }
  SUBCASE("a sample that meets it awake decides nothing") {
    sleep_for(4, 1);
    for (int i = 5; i < 8; ++i) {
      s.rank().call = -1;
      s.look(i);
      CHECK(s.watch.outside() == OutsideWait::polling);
    }
    SUBCASE("many do") {
      for (int i = 8; i < 20; ++i) {
        s.look(i);
      }
      CHECK(s.watch.outside() == OutsideWait::none);
    }
  }
  SUBCASE("a sample that meets it in another call decides nothing") {
    sleep_for(4, 1);
    s.look(5);
    s.rank().call = SYS_newfstatat;
    s.look(6);
    CHECK(s.watch.outside() == OutsideWait::polling);
    CHECK(s.watch.target() == WaitTarget::outside);
  }
  SUBCASE("wakes in other calls do not count") {
    s.rank().call = SYS_futex;
    for (int i = 0; i < 4; ++i) {
      ++s.rank().switches;
      s.watch_sleep(i);
    }
    s.rank().call = SYS_nanosleep;
    s.look(4);
    CHECK(s.watch.outside() == OutsideWait::none);
  }
}

TEST_CASE("a call that a dump has interrupted is still the same wait") {
  HelperScene s;
  s.rank() = {.call = SYS_wait4, .argument = static_cast<uint64_t>(kFirst)};
  s.start({.pid = kFirst, .parent = kRank}, kSleeps);
  s.look(0);
  s.rank() = {.call = SYS_restart_syscall};
  s.look(1);
  CHECK(s.watch.outside() == OutsideWait::child);
  s.watch.forget();  // another wait may follow
  s.look(2);
  CHECK(s.watch.outside() == OutsideWait::none);
}

TEST_CASE("samples are a tenth of a second apart at least") {
  HelperScene s;
  s.start({.pid = kFirst, .parent = kRank});
  s.look(0);
  s.start({.pid = kSecond, .parent = kRank});
  s.look(0.05);
  CHECK(s.observed() == std::vector{kFirst});
  s.look(0.11);
  CHECK(s.observed().size() == 2);
}

TEST_CASE("progress of the main thread makes all earlier samples void") {
  HelperScene s;
  Shown& helper = s.start({.pid = kFirst, .parent = kRank});
  s.look_for_a_while([&] { helper.ticks += busy_ticks(); });
  CHECK(s.watch.life() == HelperLife::working);
  s.watch.forget();
  CHECK(s.watch.life() == HelperLife::still);
  CHECK(s.observed().empty());
}

TEST_CASE("a rank that has gone has no helpers") {
  HelperScene s;
  s.shown.clear();
  s.start({.pid = kFirst, .parent = kRank}, {.call = -1});
  s.look(0);
  s.look(1);
  CHECK(s.watch.life() == HelperLife::still);
  CHECK(s.watch.outside() == OutsideWait::none);
  CHECK(s.observed().empty());
}

TEST_CASE("a thread that wakes up in read() or recv() has moved data") {
  HelperScene s;
  s.rank().call = SYS_recvfrom;
  s.watch_sleep(0);
  CHECK_FALSE(s.watch.transferred());
  s.look(1);
  CHECK_FALSE(s.watch.transferred());
  SUBCASE("asleep all the time") {
    s.look(2);
    CHECK_FALSE(s.watch.transferred());
  }
  SUBCASE("woken") {
    s.rank().switches += 1;
    s.look(2);
    CHECK(s.watch.transferred());
    s.look(3);
    CHECK_FALSE(s.watch.transferred());
  }
  SUBCASE("woken by a dump") {
    s.rank().switches += 1;
    s.watch.held();
    s.look(2);
    CHECK_FALSE(s.watch.transferred());
  }
  SUBCASE("woken in a call with a time limit") {
    s.rank().call = SYS_futex;
    s.look(2);
    s.rank().switches += 1;
    s.look(3);
    CHECK_FALSE(s.watch.transferred());
  }
}

TEST_CASE("an awaited process that wakes up in recv() works") {
  HelperScene s;
  s.rank() = {.call = SYS_wait4, .argument = static_cast<uint64_t>(kFirst)};
  Shown& child = s.start({.pid = kFirst, .parent = kRank}, {.call = SYS_recvfrom});
  s.look_for_a_while([] {});
  CHECK(s.watch.life() == HelperLife::still);
  SUBCASE("woken by data") {
    child.switches += 1;
    s.look(10);
    CHECK(s.watch.life() == HelperLife::working);
  }
  SUBCASE("woken by a dump") {
    child.switches += 1;
    s.watch.held();
    s.look(10);
    CHECK(s.watch.life() == HelperLife::still);
  }
}
