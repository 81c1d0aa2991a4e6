// Real processes in a fake process table: signals must arrive.
#include "launcher/ending/shutdown.h"

#include "launcher/options/run_options.h"
#include "launcher/spawn/command_spawner.h"
#include "launcher/spawn/environment.h"
#include "tests/unit/launcher/fake_proc.h"
#include "tests/unit/launcher/in_fork.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <optional>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <vector>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

constexpr base::MonoNs kShutdownStart = 1'000'000'000'000;

// A process that does nothing. One that blocks SIGTERM outlives it.
class Sleeper {
 public:
  enum class On { term_ends, term_is_blocked };
  explicit Sleeper(On term = On::term_ends) {
    Command command{.argv = {"sleep", "600"}, .env = current_environment()};
    sigemptyset(&command.signal_mask);
    if (term == On::term_is_blocked) {
      sigaddset(&command.signal_mask, SIGTERM);
    }
    const auto pid = spawn_command(command);
    REQUIRE(pid);
    pid_ = *pid;
  }
  ~Sleeper() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  base::Pid pid() const { return pid_; }
  bool lives() const { return ::waitpid(pid_, nullptr, WNOHANG) == 0; }
  bool has_pending(int signal) const {
    return (base::ProcFs().status(pid_)->process_pending >> (signal - 1) & 1) != 0;
  }
  void stop() const {
    REQUIRE(::kill(pid_, SIGSTOP) == 0);
    REQUIRE(::waitpid(pid_, nullptr, WUNTRACED) == pid_);
  }
  // The signal that ends it, within ten seconds; 0: none does.
  int ended_by() {
    for (int i = 0; i < 10'000; ++i) {
      int status = 0;
      if (::waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = 0;
        return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
      }
      (void)::poll(nullptr, 0, 1);
    }
    return 0;
  }

 private:
  base::Pid pid_ = 0;
};

struct ShutdownScene {
  EventLoop loop = std::move(*EventLoop::create_simulated(kShutdownStart));
  test::FakeProc fake;
  ProcessTable table{test::kSupervisor, kShutdownStart, fake.proc()};
  std::optional<Shutdown> shutdown{std::in_place, loop, table};

  explicit ShutdownScene(const std::vector<const Sleeper*>& processes) {
    table.set_main(processes.at(0)->pid());
    for (const Sleeper* p : processes) {
      add(*p);
    }
  }
  void add(const Sleeper& p) { fake.add(p.pid(), test::kSupervisor, "sleep"); }
  void run_for(double seconds) {
    loop.after(seconds, [this] { loop.stop(); });
    REQUIRE(loop.run());
  }
};

// From now on, this process has no pidfds: the kernel is older than 5.3.
void take_pidfds_away() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{.len = std::size(program), .filter = program};
  REQUIRE(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  REQUIRE(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
}

}  // namespace

TEST_CASE("TERM ends all processes of the job, stopped ones too") {
  Sleeper one;
  Sleeper two;
  const Sleeper stranger;
  ShutdownScene s({&one, &two});
  two.stop();
  CHECK_FALSE(s.shutdown->active());
  s.shutdown->terminate(kForever);
  CHECK(s.shutdown->active());
  CHECK(one.ended_by() == SIGTERM);
  CHECK(two.ended_by() == SIGTERM);
  CHECK(stranger.lives());
}

TEST_CASE("KILL comes after the grace time") {
  Sleeper deaf(Sleeper::On::term_is_blocked);
  ShutdownScene s({&deaf});
  s.shutdown->terminate(5);
  CHECK(deaf.has_pending(SIGTERM));
  SUBCASE("not before") {
    s.run_for(4.9);
    CHECK(deaf.lives());
    s.run_for(0.2);
    CHECK(deaf.ended_by() == SIGKILL);
  }
  SUBCASE("a second request changes nothing") {
    s.run_for(3);
    s.shutdown->terminate(1);
    s.run_for(1.9);
    CHECK(deaf.lives());
    s.run_for(0.2);
    CHECK(deaf.ended_by() == SIGKILL);
  }
  SUBCASE("unless someone is in a hurry") {
    s.shutdown->kill_now();
    CHECK(deaf.ended_by() == SIGKILL);
  }
  SUBCASE("unless the supervisor goes") {
    s.shutdown.reset();
    s.run_for(60);
    CHECK(deaf.lives());
  }
}

TEST_CASE("with an endless grace time nothing is killed, and nothing is waited for") {
  const Sleeper deaf(Sleeper::On::term_is_blocked);
  ShutdownScene s({&deaf});
  s.shutdown->terminate(kForever);
  s.run_for(1e6);
  CHECK(deaf.lives());
  CHECK_FALSE(s.shutdown->has_work(s.loop.now()));
}

TEST_CASE("processes that start during the killing are killed in the next round") {
  Sleeper one;
  Sleeper late;
  ShutdownScene s({&one});
  s.shutdown->kill_now();
  CHECK(one.ended_by() == SIGKILL);
  s.add(late);
  CHECK(late.lives());
  s.run_for(0.25);
  CHECK(late.ended_by() == SIGKILL);
}

TEST_CASE("the wait for killed processes ends with them, or after ten seconds") {
  const Sleeper deaf(Sleeper::On::term_is_blocked);
  ShutdownScene s({&deaf});
  CHECK_FALSE(s.shutdown->has_work(s.loop.now()));
  s.shutdown->terminate(5);
  CHECK(s.shutdown->has_work(s.loop.now()));
  s.run_for(5);
  CHECK(s.shutdown->has_work(s.loop.now()));
  SUBCASE("with them") {
    s.fake.end(deaf.pid());
    s.table.mark_dead(deaf.pid());
    CHECK_FALSE(s.shutdown->has_work(s.loop.now()));
  }
  SUBCASE("after ten seconds, because the kernel cannot end them") {
    s.run_for(9.9);
    CHECK(s.shutdown->has_work(s.loop.now()));
    s.run_for(0.2);
    CHECK_FALSE(s.shutdown->has_work(s.loop.now()));
  }
}

// As on Linux before 5.3. That a process still has its start time is looked at before the signal.
TEST_CASE("without pidfds the processes of the job are signalled too") {
  const std::string ends = test::in_fork([] {
    take_pidfds_away();
    Sleeper command;
    Sleeper other;
    ShutdownScene s({&command, &other});
    s.shutdown->terminate(kForever);
    const int signal = command.ended_by();
    return fmt::format("{} {}", signal, other.ended_by());
  });
  CHECK(ends == fmt::format("{} {}", SIGTERM, SIGTERM));
}
