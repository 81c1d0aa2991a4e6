#include "launcher/control/control_server.h"

#include "launcher/control/notice_server.h"
#include "tests/unit/launcher/received_descriptor.h"
#include "tests/unit/launcher/socket_client.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <optional>
#include <unistd.h>
#include <vector>

using namespace xpurun;
using namespace xpurun::launcher;
using test::SocketClient;

namespace {

struct Loop {
  EventLoop loop = std::move(*EventLoop::create_simulated(0));
  void run_for(double seconds) {
    loop.after(seconds, [this] { loop.stop(); });
    REQUIRE(loop.run());
  }
  void step() { run_for(0.001); }
};

struct ControlScene : Loop {
  std::string path = "control-server";
  std::vector<ControlServer::Reply> late;
  std::optional<ControlServer> server;

  ControlScene() {
    (void)::unlink(path.c_str());
    server.emplace(loop, [this](const nlohmann::json& request, ControlServer::Reply reply) {
      if (request["cmd"] == "late") {
        late.push_back(std::move(reply));
      } else {
        reply({{"ok", true}, {"cmd", request["cmd"]}});
      }
    });
    REQUIRE(server->listen(path));
  }
};

}  // namespace

TEST_CASE("control: several requests of one client are answered line by line") {
  ControlScene s;
  const SocketClient client(s.path);
  client.say("{\"cmd\":\"a\"}\n{\"cmd\":\"b\"}\n{\"cmd\"");
  s.step();
  CHECK(client.hear() == "{\"ok\":true,\"cmd\":\"a\"}\n{\"ok\":true,\"cmd\":\"b\"}\n");
  client.say(":\"c\"}\nnonsense\n");
  s.step();
  const std::string answers = client.hear();
  CHECK(answers.starts_with("{\"ok\":true,\"cmd\":\"c\"}\n"));
  CHECK(answers.find("bad_request") != std::string::npos);
  CHECK_FALSE(client.is_closed());
}

TEST_CASE("control: a client that sends one request and shuts down its side gets its reply") {
  ControlScene s;
  const SocketClient client(s.path);
  client.say("{\"cmd\":\"late\"}");  // without a newline
  client.stop_sending();
  s.run_for(100);
  REQUIRE(s.late.size() == 1);
  CHECK_FALSE(client.is_closed());
  s.late[0]({{"ok", true}});
  CHECK(client.hear() == "{\"ok\":true}\n");
  CHECK(client.is_closed());
  const SocketClient silent(s.path);
  silent.stop_sending();
  s.step();
  CHECK(silent.is_closed());
}

TEST_CASE("control: the time of an idle client is limited, the wait for a reply is not") {
  ControlScene s;
  const SocketClient silent(s.path);
  const SocketClient waiting(s.path);
  waiting.say("{\"cmd\":\"late\"}\n");
  s.run_for(31);
  CHECK(silent.is_closed());
  CHECK_FALSE(waiting.is_closed());
  s.late.at(0)({{"ok", true}});
  s.run_for(29);
  CHECK_FALSE(waiting.is_closed());
  s.run_for(2);
  CHECK(waiting.is_closed());
}

TEST_CASE("control: a line that is too long, too many requests, too many clients") {
  ControlScene s;
  const SocketClient client(s.path);
  for (int i = 0; i < 17; ++i) {
    client.say("{\"cmd\":\"late\"}\n");
  }
  s.step();
  CHECK(s.late.size() == 16);
  CHECK(client.hear().find("too many requests at a time") != std::string::npos);
  const SocketClient wordy(s.path);
  wordy.say(std::string(70'000, 'x'));
  s.step();
  CHECK(wordy.hear().find("request too long") != std::string::npos);
  CHECK(wordy.is_closed());
  std::vector<std::unique_ptr<SocketClient>> crowd;
  for (int i = 0; i < 32; ++i) {
    crowd.push_back(std::make_unique<SocketClient>(s.path));
  }
  s.step();
  CHECK(crowd.back()->hear().find("too many clients") != std::string::npos);
}

TEST_CASE("control: a reply to a disconnected client, or after the server's end, is dropped") {
  ControlScene s;
  SocketClient gone(s.path);
  gone.say("{\"cmd\":\"late\"}\n");
  s.step();
  gone.close();
  s.step();
  SocketClient next(s.path);
  next.say("{\"cmd\":\"late\"}\n");
  s.step();
  s.late.at(0)({{"ok", true}});
  CHECK(next.hear().empty());
  s.server.reset();
  s.late.at(1)({{"ok", true}});
  CHECK(next.is_closed());
}

namespace {

struct NoticeScene : Loop {
  std::string path = "notice-server";
  std::vector<std::pair<wire::NoticeKind, base::Pid>> heard;
  std::optional<NoticeServer> server;

  NoticeScene() {
    (void)::unlink(path.c_str());
    server.emplace(loop, [this](const wire::Notice& notice, base::Pid pid, base::Tid) {
      heard.emplace_back(static_cast<wire::NoticeKind>(notice.kind), pid);
    });
    REQUIRE(server->listen(path));
  }
  static std::string notice(wire::NoticeKind kind) {
    wire::Notice n{};
    n.magic = wire::kNoticeMagic;
    n.version = wire::kNoticeVersion;
    n.kind = static_cast<uint16_t>(kind);
    return {reinterpret_cast<const char*>(&n), sizeof n};
  }
};

}  // namespace

TEST_CASE("notices: a crashed process is held until it is released, without a time limit") {
  NoticeScene s;
  const SocketClient client(s.path, SOCK_SEQPACKET);
  client.say(NoticeScene::notice(wire::NoticeKind::crash));
  s.run_for(1000);
  REQUIRE(s.heard.size() == 1);
  CHECK(s.heard[0] == std::pair(wire::NoticeKind::crash, static_cast<base::Pid>(::getpid())));
  CHECK_FALSE(client.is_closed());
  SUBCASE("by its pid") {
    s.server->release(::getpid() + 1);
    CHECK_FALSE(client.is_closed());
    s.server->release(::getpid());
  }
  SUBCASE("with all others") {
    s.server->release_all();
  }
  CHECK(client.hear() == "\1");
  CHECK(client.is_closed());
}

TEST_CASE("notices: a hello needs no reply, nonsense gets none, and idle clients are dropped") {
  NoticeScene s;
  const SocketClient hello(s.path, SOCK_SEQPACKET);
  hello.say(NoticeScene::notice(wire::NoticeKind::hello));
  const SocketClient half(s.path, SOCK_SEQPACKET);
  half.say(NoticeScene::notice(wire::NoticeKind::crash).substr(0, 20));
  const SocketClient silent(s.path, SOCK_SEQPACKET);
  s.step();
  CHECK(s.heard.size() == 1);
  CHECK(hello.is_closed());
  CHECK(half.is_closed());
  CHECK_FALSE(silent.is_closed());
  s.run_for(31);
  CHECK(silent.is_closed());
}

TEST_CASE("notices: a process that attaches gets its descriptor, or nothing") {
  NoticeScene s;
  const SocketClient client(s.path, SOCK_SEQPACKET);
  client.say(NoticeScene::notice(wire::NoticeKind::attach));
  s.step();
  SUBCASE("nothing") {
    s.server->answer_attach(::getpid(), -1);
    CHECK(client.is_closed());
  }
  SUBCASE("a descriptor") {
    int pipe_ends[2];
    REQUIRE(::pipe(pipe_ends) == 0);
    s.server->answer_attach(::getpid(), pipe_ends[1]);
    ::close(pipe_ends[1]);
    const test::ReceivedDescriptor got = test::receive_descriptor(client.fd());
    CHECK(got.byte == 's');
    REQUIRE(got.fd);
    char byte = 0;
    REQUIRE(::write(got.fd.get(), "x", 1) == 1);
    REQUIRE(::read(pipe_ends[0], &byte, 1) == 1);
    CHECK(byte == 'x');
    ::close(pipe_ends[0]);
    CHECK(client.is_closed());
  }
}

TEST_CASE("notices: a held process that is killed is dropped") {
  NoticeScene s;
  SocketClient client(s.path, SOCK_SEQPACKET);
  client.say(NoticeScene::notice(wire::NoticeKind::crash));
  s.step();
  client.close();
  s.step();
  s.server->release(::getpid());
  s.server->release_all();
  CHECK(s.heard.size() == 1);
}
