#include "common/base/os/fd.h"
#include "launcher/control/control_client.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

using xpurun::base::UniqueFd;
using xpurun::launcher::ControlClient;

namespace {

// Takes one connection, reads one line, answers with `reply` and hangs up.
class OneShotServer {
 public:
  explicit OneShotServer(std::string reply)
      : path_("control-" + std::to_string(++count_)),
        listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path_.c_str());
    REQUIRE(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(listener_.get(), 1) == 0);
    thread_ = std::thread([this, reply = std::move(reply)] {
      const UniqueFd client(::accept(listener_.get(), nullptr, nullptr));
      char c = 0;
      while (::read(client.get(), &c, 1) == 1 && c != '\n') {
        request_ += c;
      }
      (void)!::write(client.get(), reply.data(), reply.size());
    });
  }
  ~OneShotServer() { join(); }

  const std::string& path() const { return path_; }
  const std::string& request() {
    join();
    return request_;
  }

 private:
  void join() {
    if (thread_.joinable()) {
      thread_.join();
    }
  }
  static inline int count_ = 0;
  std::string path_;
  UniqueFd listener_;
  std::string request_;
  std::thread thread_;
};

std::string problem(const std::string& reply) {
  OneShotServer server(reply);
  const auto dir = ControlClient(server.path()).dump(5);
  REQUIRE(!dir);
  CHECK(dir.error().id == "E-CONTROL");
  return dir.error().what;
}

}  // namespace

TEST_CASE("a dump request") {
  OneShotServer server("{\"ok\":true,\"dir\":\"dumps/2-request\"}\n");
  const auto dir = ControlClient(server.path()).dump(5);
  REQUIRE(dir);
  CHECK(*dir == "dumps/2-request");
  CHECK(server.request() == R"({"cmd":"dump","why":"request"})");
}

TEST_CASE("a status request") {
  OneShotServer server("{\"ok\":true,\"ranks\":[]}\nrest is ignored");
  CHECK(ControlClient(server.path()).status(5).value() == "{\"ok\":true,\"ranks\":[]}");
}

TEST_CASE("error answers and invalid answers") {
  CHECK(problem("{\"ok\":false,\"error\":\"a dump is\\u0007 going on\"}\n") ==
        "xpurun refused: a dump is? going on");
  CHECK(problem("{\"ok\":false}\n") == "xpurun refused: no reason given");
  CHECK(problem("{\"ok\":true}\n") == "xpurun did not report where the dump is");
  CHECK(problem("{\"ok\":1}\n") == "xpurun sent an invalid answer");
  CHECK(problem("HTTP/1.1 400\n") == "xpurun sent an invalid answer");
  CHECK(problem("{\"ok\":tr") == "xpurun closed the connection without an answer");
}

TEST_CASE("no answer") {
  SUBCASE("no socket") {
    const auto dir = ControlClient("gone").dump(5);
    REQUIRE(!dir);
    CHECK(dir.error().id == "E-CONTROL");
    CHECK(dir.error().cause == "the xpurun of this run has ended, or was killed");
  }
  SUBCASE("a path too long for a socket") {
    CHECK(ControlClient("").dump(5).error().id == "E-CONTROL");
    CHECK(ControlClient(std::string(200, 'x')).dump(5).error().id == "E-CONTROL");
  }
  SUBCASE("too slow") {
    const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, "slow");
    REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(listener.get(), 1) == 0);
    const auto dir = ControlClient("slow").dump(0.1);
    REQUIRE(!dir);
    CHECK(dir.error().what == "no answer from xpurun within 0.1 s");
  }
}
