#include "launcher/supervise/listeners.h"

#include "tests/unit/launcher/job_scene.h"
#include "tests/unit/launcher/no_descriptors.h"
#include "tests/unit/launcher/services/log_lines.h"
#include "tests/unit/launcher/socket_client.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <sys/stat.h>

using namespace xpurun;
using namespace xpurun::launcher;
using test::NoDescriptors;
using test::SocketClient;

namespace {

struct ListenersScene : test::JobScene {
  test::LogLines log;
  DirectStorage at_once;
  std::vector<std::string> said;
  NoticeServer notices{loop, [](const wire::Notice&, base::Pid, base::Tid) {}};
  MetricsServer metrics{loop, [] { return NodeMetrics(); }};
  TimingService timing{{loop, storage, table, options},
                       journal.dir(),
                       "node-a",
                       {.progress = [](base::Pid) { return TimingService::RankProgress(); },
                        .dumps = [] { return TimingService::DumpActivity(); },
                        .unknown_process = [](base::Pid) {},
                        .first_gpu_use = [] {}}};
  ControlApi control{{loop, at_once, timing, options},
                     "run",
                     "node-a",
                     {.status =
                          [] {
                            LiveStatus status;
                            status.run = "here";
                            return status;
                          },
                      .complete = [](LiveStatus&) {},
                      .better_informed = [] { return std::string(); }}};
  Listeners listeners{{journal, options, notices, control, metrics},
                      [this](const std::string& line) { said.push_back(line); }};

  ListenersScene() {
    std::filesystem::remove_all("run");
    std::filesystem::create_directory("run");
    options.metrics_port = kNoPort;
    options.control_port = kNoPort;
    options.control_token = false;
  }
  static DirFacts dir() { return facts_of("run"); }
  const model::RunManifest& manifest() const { return journal.manifest(); }
};

// Long enough that no socket has room below it.
std::string deep_directory() {
  const std::string path = std::filesystem::current_path().string() + "/" + std::string(120, 'd');
  std::filesystem::create_directories(path);
  return path;
}

}  // namespace

TEST_CASE("listeners: the sockets are in the run directory, for the user only, and are removed") {
  ListenersScene s;
  s.listeners.open(ListenersScene::dir());
  CHECK(s.listeners.notice_path() == std::filesystem::absolute("run/notice.sock").string());
  CHECK(s.manifest().control == std::filesystem::absolute("run/control.sock").string());
  struct stat st {};
  REQUIRE(::stat("run/control.sock", &st) == 0);
  CHECK((st.st_mode & 0777) == 0600);
  const SocketClient client(s.manifest().control);
  client.say("{\"cmd\":\"status\"}\n");
  s.run_for(0.01);
  CHECK(client.hear().find("\"run\":\"here\"") != std::string::npos);
  CHECK(s.said.empty());
  CHECK(s.manifest().metrics.empty());
  CHECK(s.manifest().control_url.empty());
  s.listeners.remove(s.storage);
  CHECK(std::filesystem::is_empty("run"));
}

TEST_CASE("listeners: a directory without room for sockets") {
  ListenersScene s;
  DirFacts facts = ListenersScene::dir();
  SUBCASE("its path is too long") {
    facts.absolute = deep_directory();
  }
  SUBCASE("it is on a network file system") {
    facts.local = false;
  }
  s.listeners.open(facts);
  const std::string path = s.listeners.notice_path();
  CHECK(path.ends_with("/notice.sock"));
  CHECK(path.find(facts.absolute) == std::string::npos);
  CHECK(std::filesystem::exists(s.manifest().control));
  s.listeners.remove(s.storage);
  CHECK_FALSE(std::filesystem::exists(std::filesystem::path(path).parent_path()));
}

TEST_CASE("listeners: without a free descriptor the job starts all the same") {
  ListenersScene s;
  s.options.metrics_port = 28590;
  s.options.control_port = 28690;
  {
    const NoDescriptors full;
    s.listeners.open(ListenersScene::dir());
  }
  CHECK(s.listeners.notice_path().empty());
  CHECK(s.manifest().control.empty());
  CHECK(s.manifest().metrics.empty());
  CHECK(s.manifest().control_url.empty());
  CHECK(s.said.empty());
  for (const char* warning : {"no sockets: ", "no /metrics: ", "no control over HTTP: "}) {
    CAPTURE(warning);
    CHECK(s.log.have(warning));
  }
  s.listeners.remove(s.storage);
}

TEST_CASE("listeners: ports that were asked for are told") {
  ListenersScene s;
  s.options.metrics_port = 28590;
  s.options.control_port = 28690;
  SUBCASE("to the user too") {
    s.listeners.open(ListenersScene::dir());
    CHECK(s.said == std::vector<std::string>{
                        "metrics at " + s.metrics.url(),
                        fmt::format("control at {}, without a token: every user of this host may ask",
                                    s.control.url())});
  }
  SUBCASE("but not if xpurun is quiet") {
    s.options.verbosity = -1;
    s.listeners.open(ListenersScene::dir());
    CHECK(s.said.empty());
  }
  SUBCASE("with a token") {
    s.options.control_token = true;
    s.listeners.open(ListenersScene::dir());
    REQUIRE(s.said.size() == 2);
    CHECK(s.said[1] == fmt::format("control at {}, the token is in run/control.token", s.control.url()));
    CHECK(base::read_file("run/control.token").value().size() == 33);
  }
  CHECK(s.manifest().metrics == s.metrics.url());
  CHECK(s.manifest().control_url == s.control.url());
  CHECK(s.metrics.port() >= 28590);
}

TEST_CASE("listeners: a token that cannot be written keeps control over HTTP off") {
  ListenersScene s;
  s.options.control_port = 28690;
  s.options.control_token = true;
  std::filesystem::create_directory("run/control.token");
  s.listeners.open(ListenersScene::dir());
  CHECK(s.log.have("no control over HTTP: "));
  CHECK(s.manifest().control_url.empty());
  CHECK(s.control.url().empty());
  CHECK_FALSE(s.manifest().control.empty());
}

TEST_CASE("listeners: a port for metrics that nobody chose opens with the first rank, and is not said") {
  ListenersScene s;
  s.options.metrics_port = 0;
  s.listeners.open(ListenersScene::dir());
  CHECK(s.metrics.port() == 0);
  SUBCASE("once") {
    s.listeners.open_metrics();
    const int port = s.metrics.port();
    CHECK(port >= kMetricsPort);
    s.listeners.open_metrics();
    CHECK(s.metrics.port() == port);
    CHECK(s.manifest().metrics == s.metrics.url());
    CHECK(s.said.empty());
  }
  SUBCASE("a failure is no warning, and not tried again") {
    {
      const NoDescriptors full;
      s.listeners.open_metrics();
    }
    CHECK(s.log.have(" info no /metrics: "));
    s.listeners.open_metrics();
    CHECK(s.metrics.port() == 0);
  }
  SUBCASE("never if metrics are off") {
    s.options.metrics_port = kNoPort;
    s.listeners.open_metrics();
    CHECK(s.metrics.port() == 0);
  }
}
