#include "launcher/os/stream_server.h"
#include "launcher/os/unix_socket.h"
#include "tests/unit/launcher/no_descriptors.h"
#include "tests/unit/launcher/socket_client.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <memory>
#include <vector>

using namespace xpurun;
using namespace xpurun::launcher;
using test::SocketClient;

namespace {

int servers = 0;

// Answers every line with the line in brackets.
struct StreamServerScene {
  std::string path = fmt::format("stream-{}", ++servers);
  EventLoop loop = std::move(*EventLoop::create_simulated(0));
  std::string ended_with = "-";
  int closed = 0;
  StreamServer::Id last = 0;
  bool drops_on_end = true;
  std::unique_ptr<StreamServer> server;

  explicit StreamServerScene(StreamServer::Limits limits = {}) {
    server = std::make_unique<StreamServer>(
        loop, std::move(limits),
        StreamServer::Handlers{
            .received = [this](StreamServer::Id id, std::string& input) { received(id, input); },
            .input_ended =
                [this](StreamServer::Id id, const std::string& input) {
                  ended_with = input;
                  if (drops_on_end) {
                    server->drop(id);
                  }
                },
            .closed = [this](StreamServer::Id) { ++closed; }});
    auto listener = listen_unix(path, SOCK_STREAM);
    REQUIRE(listener);
    REQUIRE(server->start(std::move(*listener)));
  }
  void received(StreamServer::Id id, std::string& input) {
    last = id;
    for (size_t end = input.find('\n'); end != std::string::npos; end = input.find('\n')) {
      const std::string line = input.substr(0, end);
      input.erase(0, end + 1);
      if (line == "drop me") {
        server->drop(id);
        return;
      }
      server->send(id, "[" + line + "]");
    }
  }
  void run_for(double seconds) {
    loop.after(seconds, [this] { loop.stop(); });
    REQUIRE(loop.run());
  }
  void step() { run_for(0.001); }
};

}  // namespace

TEST_CASE("a message in pieces arrives whole") {
  StreamServerScene s;
  const SocketClient client(s.path);
  client.say("he");
  s.step();
  CHECK(client.hear().empty());
  client.say("llo\nwor");
  s.step();
  CHECK(client.hear() == "[hello]");
  client.say("ld\n");
  s.step();
  CHECK(client.hear() == "[world]");
}

TEST_CASE("a client that sends nothing, or an incomplete message, is dropped after the time limit") {
  StreamServerScene s({.request_s = 10});
  const SocketClient silent(s.path);
  const SocketClient half(s.path);
  half.say("half");
  s.run_for(9);
  CHECK_FALSE(silent.is_closed());
  half.say("er");  // does not extend the time limit
  s.run_for(2);
  CHECK(silent.is_closed());
  CHECK(half.is_closed());
  CHECK(s.closed == 2);
}

TEST_CASE("the owner moves the time limit") {
  StreamServerScene s({.request_s = 10});
  const SocketClient client(s.path);
  client.say("a\n");
  s.step();
  s.server->clear_deadline(s.last);
  s.run_for(100);
  CHECK_FALSE(client.is_closed());
  s.server->set_deadline(s.last, 5);
  s.run_for(6);
  CHECK(client.is_closed());
  s.server->set_deadline(s.last, 5);  // the client is gone, so no effect
  s.server->send(s.last, "x");
  s.server->finish(s.last);
  s.server->drop(s.last);
  CHECK(s.closed == 1);
}

TEST_CASE("too many clients are refused; disconnected clients make room") {
  StreamServerScene s({.most_clients = 2, .too_many = "no room"});
  auto first = std::make_unique<SocketClient>(s.path);
  const SocketClient second(s.path);
  const SocketClient third(s.path);
  s.step();
  CHECK(third.hear() == "no room");
  CHECK(third.is_closed());
  CHECK(s.server->clients() == 2);
  first.reset();
  s.step();
  const SocketClient fourth(s.path);
  fourth.say("hi\n");
  s.step();
  CHECK(fourth.hear() == "[hi]");
}

TEST_CASE("clients that never ask make room for others") {
  StreamServerScene s({.most_clients = 2, .too_many = "no room"});
  const SocketClient asking(s.path);
  asking.say("a\n");
  s.step();
  s.server->clear_deadline(s.last);
  const SocketClient silent(s.path);
  s.run_for(2);
  const SocketClient late(s.path);
  late.say("hi\n");
  s.step();
  CHECK(late.hear() == "[hi]");
  CHECK(silent.is_closed());
  CHECK_FALSE(asking.is_closed());
  // One that has just come may still ask.
  const SocketClient refused(s.path);
  s.step();
  CHECK(refused.hear() == "no room");
}

TEST_CASE("a client that does not read is dropped once more is unsent than the limit") {
  const std::string large(4 << 20, 'x');
  SUBCASE("without a buffer: immediately") {
    StreamServerScene s({.most_unsent = 0});
    const SocketClient client(s.path);
    client.say("a\n");
    s.step();
    s.server->send(s.last, large);
    CHECK(s.closed == 1);
  }
  SUBCASE("with a buffer: it receives everything while it reads") {
    StreamServerScene s({.most_unsent = large.size()});
    const SocketClient client(s.path);
    client.say("a\n");
    s.step();
    s.server->send(s.last, large);
    s.server->finish(s.last);
    CHECK(s.closed == 0);
    std::string heard;
    for (int i = 0; i < 1000 && s.closed == 0; ++i) {
      heard += client.hear();
      s.step();
    }
    heard += client.hear();
    CHECK(heard.size() == large.size() + 3);
    CHECK(client.is_closed());
  }
  SUBCASE("a client that disconnects during a send loses only its connection") {
    StreamServerScene s({.most_unsent = large.size()});
    SocketClient client(s.path);
    client.say("a\n");
    s.step();
    s.server->send(s.last, large);
    client.close();
    s.step();
    CHECK(s.closed == 1);
  }
}

TEST_CASE("the end of the input, with the remaining bytes") {
  StreamServerScene s;
  SocketClient client(s.path);
  client.say("a\nrest");
  client.stop_sending();
  SUBCASE("the owner drops the client") {
    s.step();
    CHECK(client.hear() == "[a]");
    CHECK(s.ended_with == "rest");
    CHECK(s.closed == 1);
  }
  SUBCASE("the owner answers later") {
    s.drops_on_end = false;
    s.step();
    CHECK(s.closed == 0);
    s.server->send(s.last, "late");
    s.server->finish(s.last);
    CHECK(client.hear() == "[a]late");
    CHECK(client.is_closed());
  }
  SUBCASE("a client that has disconnected completely") {
    client.close();
    s.step();
    CHECK(s.closed == 1);
  }
}

TEST_CASE("a handler may drop its client") {
  StreamServerScene s;
  const SocketClient client(s.path);
  client.say("a\ndrop me\nb\n");
  s.step();
  CHECK(client.hear() == "[a]");
  CHECK(client.is_closed());
  CHECK(s.closed == 1);
}

TEST_CASE("without a free descriptor the listener pauses, then accepts the waiting client") {
  StreamServerScene s;
  const SocketClient client(s.path);
  client.say("hi\n");
  {
    const test::NoDescriptors full;
    s.run_for(0.1);
    CHECK(s.server->clients() == 0);
  }
  s.run_for(0.5);
  CHECK(client.hear() == "[hi]");
}
