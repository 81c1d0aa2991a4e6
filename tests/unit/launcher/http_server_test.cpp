#include "launcher/http/http_server.h"

#include "common/base/os/host.h"
#include "tests/unit/launcher/socket_client.h"

#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <vector>

using namespace xpurun;
using namespace xpurun::launcher;
using test::SocketClient;

namespace {

struct ServerScene {
  EventLoop loop = std::move(*EventLoop::create_simulated(0));
  std::vector<std::string> paths;
  std::vector<HttpServer::Reply> late;  // replies to /late
  std::optional<HttpServer> server;

  ServerScene() {
    server.emplace(loop, [this](const HttpRequest& request, const HttpServer::Reply& reply) {
      paths.push_back(request.path);
      if (request.path == "/late") {
        late.push_back(reply);
      } else {
        reply({.body = "here\n"});
      }
    });
    REQUIRE(server->listen(28889));
  }
  void run_for(double seconds) {
    loop.after(seconds, [this] { loop.stop(); });
    REQUIRE(loop.run());
  }
  void step() { run_for(0.001); }
  SocketClient client() const { return SocketClient(server->port()); }
};

}  // namespace

TEST_CASE("one request per connection, in pieces if need be") {
  ServerScene s;
  const SocketClient client = s.client();
  client.say("GET /a HTTP/1.1\r\nHo");
  s.step();
  CHECK(client.hear().empty());
  client.say("st: localhost\r\n\r\nGET /b HTTP/1.1\r\n\r\n");
  s.step();
  const std::string answer = client.hear_to_the_end();
  CHECK(answer.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(answer.ends_with("\r\n\r\nhere\n"));
  CHECK(s.paths == std::vector<std::string>{"/a"});
  const SocketClient head = s.client();
  head.say("HEAD /a HTTP/1.1\r\n\r\n");
  s.step();
  CHECK(head.hear_to_the_end().ends_with("\r\n\r\n"));
}

TEST_CASE("malformed requests are refused") {
  ServerScene s;
  const SocketClient client = s.client();
  client.say("hello\r\n\r\n");
  s.step();
  const std::string answer = client.hear_to_the_end();
  CHECK(answer.starts_with("HTTP/1.1 400 "));
  CHECK(answer.ends_with("unknown request\n"));
  CHECK(s.paths.empty());
}

TEST_CASE("requests of web pages are refused, whatever the server") {
  ServerScene s;
  const auto status = [&s](const std::string& headers) {
    const SocketClient client = s.client();
    client.say("GET /a HTTP/1.1\r\n" + headers + "\r\n");
    s.step();
    return client.hear_to_the_end().substr(9, 3);
  };
  for (const std::string host :
       {"127.0.0.1", "127.0.0.1:18888", "localhost:1", "LOCALHOST", "[::1]:80", "10.1.2.3:18889"}) {
    CAPTURE(host);
    CHECK(status("Host: " + host + "\r\n") == "200");
  }
  CHECK(status("") == "200");
  CHECK(status("Host: " + base::host_name() + ":18889\r\n") == "200");
  // A name that somebody else may give to 127.0.0.1.
  for (const std::string host : {"evil.example", "evil.example:18888", "127.0.0.1.evil.example",
                                 "127.0.0.1:80@evil", "127.0.0.1:", "[::1].evil", "[", ""}) {
    CAPTURE(host);
    CHECK(status("Host: " + host + "\r\n") == "403");
  }
  CHECK(status("Host: localhost\r\nOrigin: http://localhost:3000\r\n") == "403");
  CHECK(status("Host: localhost\r\nHost: evil.example\r\n") == "400");
}

TEST_CASE("a slow client is dropped, a slow reply is not") {
  ServerScene s;
  const SocketClient slow = s.client();
  slow.say("GET /a HTTP/1.1\r\n");
  const SocketClient patient = s.client();
  patient.say("GET /late HTTP/1.1\r\n\r\n");
  s.run_for(9);
  CHECK_FALSE(slow.is_closed());
  s.run_for(2);
  CHECK(slow.hear_to_the_end().empty());
  s.run_for(600);
  CHECK_FALSE(patient.is_closed());
  patient.say("more");  // is not looked at
  s.step();
  s.late.at(0)({.body = "at last\n"});
  s.late.at(0)({.body = "once more\n"});
  CHECK(patient.hear_to_the_end().ends_with("\r\n\r\nat last\n"));
}

TEST_CASE("a reply to a disconnected client, or after the server's end, is dropped") {
  ServerScene s;
  SocketClient gone = s.client();
  gone.say("GET /late HTTP/1.1\r\n\r\n");
  s.step();
  gone.close();
  s.step();
  const SocketClient next = s.client();  // perhaps with the same descriptor
  next.say("GET /late HTTP/1.1\r\n\r\n");
  s.step();
  s.late.at(0)({.body = "for another\n"});
  s.step();
  CHECK(next.hear().empty());
  s.server.reset();
  s.late.at(1)({.body = "nobody\n"});
  CHECK(next.hear_to_the_end().empty());
}

TEST_CASE("clients beyond the limit are told to retry") {
  ServerScene s;
  std::vector<std::unique_ptr<SocketClient>> crowd;
  for (int i = 0; i < 65; ++i) {
    crowd.push_back(std::make_unique<SocketClient>(s.server->port()));
    crowd.back()->say("GET");
    s.step();
  }
  CHECK(crowd.back()->hear_to_the_end().starts_with("HTTP/1.1 503 "));
  CHECK_FALSE(crowd.front()->is_closed());
}
