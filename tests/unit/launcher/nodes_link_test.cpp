#include "common/base/os/io.h"
#include "launcher/nodes/node_limits.h"
#include "launcher/nodes/node_link.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <sys/stat.h>
#include <sys/wait.h>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

// A shell script instead of xpurun-nodes; the socket is its descriptor 3.
struct LinkScene {
  EventLoop loop;
  std::vector<std::string> events;
  NodeLink link{{.loop = loop, .signal_mask = empty_mask()},
                {.started = [](base::Pid) {},
                 .up = [this] { events.emplace_back("up"); },
                 .received = [this](FromHelper m) { received(m); },
                 .lost =
                     [this](const std::string&) {
                       events.emplace_back("lost");
                       loop.stop();
                     }}};

  explicit LinkScene(EventLoop made) : loop(std::move(made)) {}

  static sigset_t empty_mask() {
    sigset_t mask;
    sigemptyset(&mask);
    return mask;
  }
  void received(const FromHelper& message) {
    if (const auto* joined = std::get_if<JoinedMessage>(&message)) {
      events.push_back("joined " + joined->server);
    } else if (const auto* alone = std::get_if<AloneMessage>(&message)) {
      events.push_back("alone " + alone->reason);
    } else if (std::holds_alternative<FailedMessage>(message)) {
      link.give_up();
      loop.stop();
    }
  }
  void start(const std::string& body) {
    REQUIRE(base::write_file_atomic("node-helper", "#!/bin/sh\n" + body));
    REQUIRE(::chmod("node-helper", 0700) == 0);
    link.start("./node-helper", {.run = "r", .node = "0-a", .token = "geheim"});
  }
  void run(double limit_s = 20) {
    loop.after(limit_s, [this] { loop.stop(); });
    REQUIRE(loop.run());
  }
};

using LinkTold = std::vector<std::string>;

}  // namespace

TEST_CASE("link: lines go both ways, and what is malformed is dropped") {
  LinkScene s(std::move(*EventLoop::create()));
  s.start(R"sh(
read -r start <&3
case $start in *'"type":"start"'*'"token":"geheim"'*) ok=yes ;; esac
read -r state <&3
case $state in *'"phase":"running"'*) ;; *) ok=no ;; esac
echo 'no JSON' >&3
echo '{"type":"joined","server":"'$ok'","elected":"0-a","nodes":1}' >&3
printf '{"type":"alone",' >&3
printf '"reason":"bye"}\n' >&3
)sh");
  s.link.send(StateMessage{.phase = NodePhase::running});
  s.run();
  CHECK(s.events == LinkTold{"up", "joined yes", "alone bye", "lost"});
  CHECK_FALSE(s.link.running());
  int status = 0;
  const base::Pid pid = s.link.pid();
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  CHECK(s.link.helper_ended(pid, base::WaitStatus(status)));
  CHECK_FALSE(s.link.helper_ended(pid, base::WaitStatus(status)));
}

TEST_CASE("link: the helper knows nothing from its arguments and its environment") {
  ::setenv("XPURUN_NATS_TOKEN", "geheim", 1);
  LinkScene s(std::move(*EventLoop::create()));
  s.start(R"sh(
echo '{"type":"alone","reason":"'$#${XPURUN_NATS_TOKEN:-none}'"}' >&3
)sh");
  s.run();
  ::unsetenv("XPURUN_NATS_TOKEN");
  CHECK(s.events == LinkTold{"up", "alone 0none", "lost"});
}

TEST_CASE("link: a helper that cannot live is started again, ever more slowly") {
  LinkScene s(std::move(*EventLoop::create_simulated(1'000'000'000'000)));
  s.link.start("./there-is-no-such-helper", {});
  std::vector<long> waits;
  base::MonoNs last = s.loop.now();
  for (int i = 0; i < 9; ++i) {
    s.run(1000);
    waits.push_back((s.loop.now() - last) / 1'000'000'000);
    last = s.loop.now();
  }
  CHECK(waits == std::vector<long>{1, 2, 4, 8, 16, 32, 60, 60, 60});
  s.link.send(StateMessage{});  // without effect
}

TEST_CASE("link: a helper that is started again has the next number of the same supervisor") {
  LinkScene s(std::move(*EventLoop::create()));
  s.start(R"sh(
read -r start <&3
instance=${start#*'"instance":'}
echo "${instance%%,*}" >> instances
)sh");
  std::vector<base::Pid> pids;
  for (int i = 0; i < 2; ++i) {
    s.run();
    pids.push_back(s.link.pid());
    int status = 0;
    REQUIRE(::waitpid(pids.back(), &status, 0) == pids.back());
  }
  CHECK(s.events == LinkTold{"up", "lost", "up", "lost"});
  const auto text = base::read_file("instances", 1000);
  REQUIRE(text);
  size_t used = 0;
  const uint64_t first = std::stoull(*text, &used);
  CHECK((first >> 32) != 0);
  CHECK(std::stoull(text->substr(used)) == first + 1);
}

TEST_CASE("link: a helper that asks for the user is not started again") {
  LinkScene s(std::move(*EventLoop::create()));
  s.start(R"sh(
echo '{"type":"failed","reason":"wrong token"}' >&3
)sh");
  s.run();
  const base::Pid pid = s.link.pid();
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  CHECK(s.link.helper_ended(pid, base::WaitStatus(status)));
  CHECK(s.events == LinkTold{"up"});
  CHECK_FALSE(s.link.running());
}

TEST_CASE("link: a helper that reads nothing costs states only, and no time") {
  LinkScene s(std::move(*EventLoop::create()));
  s.start("exec sleep 1000\n");
  StateMessage state;
  for (int i = 0; i < 1000; ++i) {
    state.ranks.push_back({.rank = i, .where = std::string(kLongestText, 'x')});
  }
  for (size_t sent = 0; s.link.dropped_states() == 0; sent += 1'000'000) {
    REQUIRE(sent < 2 * kMostQueued);
    s.link.send(state);
  }
  const uint64_t dropped = s.link.dropped_states();
  s.link.send(StalledMessage{.stall = 1});
  s.link.send(state);
  CHECK(s.link.dropped_states() > dropped);
  CHECK(s.link.running());
}

TEST_CASE("link: last words are passed on before the end") {
  LinkScene s(std::move(*EventLoop::create()));
  s.start(R"sh(
while read -r line <&3; do
  case $line in *'"type":"end"'*) echo "$line" > last-words; exit 0 ;; esac
done
)sh");
  s.link.finish(7, 20);
  CHECK_FALSE(s.link.running());
  const auto words = base::read_file("last-words", 1000);
  REQUIRE(words);
  CHECK(words->find("\"exit_status\":7") != std::string::npos);
}
