#include "launcher/os/acceptor.h"

#include "launcher/os/unix_socket.h"
#include "tests/unit/launcher/no_descriptors.h"
#include "tests/unit/launcher/socket_client.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cerrno>
#include <fcntl.h>
#include <memory>
#include <sys/socket.h>
#include <vector>

using namespace xpurun;
using namespace xpurun::launcher;
using test::NoDescriptors;
using test::SocketClient;

namespace {

int acceptor_scenes = 0;

struct AcceptorScene {
  std::string path = fmt::format("acceptor-{}", ++acceptor_scenes);
  EventLoop loop = std::move(*EventLoop::create_simulated(0));
  std::vector<base::UniqueFd> taken;
  std::function<void()> after_each = [] {};
  Acceptor acceptor{loop, [this](base::UniqueFd connection) {
                      taken.push_back(std::move(connection));
                      after_each();
                    }};

  AcceptorScene() { REQUIRE(acceptor.start(listener(path))); }
  static base::UniqueFd listener(const std::string& at) {
    auto made = listen_unix(at, SOCK_STREAM);
    REQUIRE(made);
    return std::move(*made);
  }
  void run_for(double seconds) {
    loop.after(seconds, [this] { loop.stop(); });
    REQUIRE(loop.run());
  }
};

std::vector<std::unique_ptr<SocketClient>> clients_of(const std::string& path, int number) {
  std::vector<std::unique_ptr<SocketClient>> out;
  for (int i = 0; i < number; ++i) {
    out.push_back(std::make_unique<SocketClient>(path));
  }
  return out;
}

}  // namespace

TEST_CASE("accepting: nobody waits, no descriptor is free, no listener") {
  const base::UniqueFd listener = AcceptorScene::listener("accept-one");
  const AcceptResult none = accept_connection(listener.get(), SOCK_CLOEXEC);
  CHECK_FALSE(none.connection);
  CHECK_FALSE(none.again);
  CHECK_FALSE(none.exhausted);
  const SocketClient client("accept-one");
  {
    const NoDescriptors full;
    const AcceptResult failed = accept_connection(listener.get(), SOCK_CLOEXEC);
    CHECK_FALSE(failed.connection);
    CHECK_FALSE(failed.again);
    CHECK(failed.exhausted);
    CHECK(failed.error == EMFILE);
  }
  CHECK(accept_connection(listener.get(), SOCK_CLOEXEC).connection);
  CHECK(accept_connection(-1, 0).error == EBADF);
}

TEST_CASE("connections do not block and are not inherited") {
  AcceptorScene s;
  const SocketClient client(s.path);
  s.run_for(0.001);
  REQUIRE(s.taken.size() == 1);
  CHECK((::fcntl(s.taken[0].get(), F_GETFL) & O_NONBLOCK) != 0);
  CHECK((::fcntl(s.taken[0].get(), F_GETFD) & FD_CLOEXEC) != 0);
  client.say("x");
  char byte = 0;
  CHECK(::read(s.taken[0].get(), &byte, 1) == 1);
}

TEST_CASE("many waiting connections are accepted in portions") {
  AcceptorScene s;
  const auto clients = clients_of(s.path, 70);
  s.after_each = [&] { s.loop.stop(); };
  REQUIRE(s.loop.run());
  CHECK(s.taken.size() == 64);
  REQUIRE(s.loop.run());
  CHECK(s.taken.size() == 70);
}

TEST_CASE("a connection whose peer has closed is accepted, and the next one too") {
  AcceptorScene s;
  SocketClient gone(s.path);
  gone.close();
  const SocketClient next(s.path);
  next.say("x");
  s.run_for(0.001);
  REQUIRE(s.taken.size() == 2);
  char byte = 0;
  CHECK(::read(s.taken[0].get(), &byte, 1) == 0);
  CHECK(::read(s.taken[1].get(), &byte, 1) == 1);
}

TEST_CASE("without a free descriptor the listener rests for a quarter of a second") {
  AcceptorScene s;
  const SocketClient client(s.path);
  {
    const NoDescriptors full;
    s.run_for(0.1);
  }
  CHECK(s.acceptor.listening());
  SUBCASE("then it accepts") {
    s.run_for(0.1);
    CHECK(s.taken.empty());
    s.run_for(0.1);
    CHECK(s.taken.size() == 1);
  }
  SUBCASE("unless it is closed first") {
    s.acceptor.close();
    CHECK_FALSE(s.acceptor.listening());
    s.run_for(10);
    CHECK(s.taken.empty());
    CHECK(client.is_closed());
  }
  SUBCASE("a new listener does not wait") {
    const std::string other = s.path + "-other";
    REQUIRE(s.acceptor.start(AcceptorScene::listener(other)));
    const SocketClient second(other);
    s.run_for(0.05);
    CHECK(s.taken.size() == 1);
    CHECK(client.is_closed());
  }
}

TEST_CASE("a handler may close the listener") {
  AcceptorScene s;
  const auto clients = clients_of(s.path, 3);
  s.after_each = [&] { s.acceptor.close(); };
  s.run_for(1);
  CHECK(s.taken.size() == 1);
  CHECK_FALSE(clients[0]->is_closed());
  CHECK(clients[1]->is_closed());
}

TEST_CASE("a descriptor that cannot be watched is refused") {
  AcceptorScene s;
  CHECK_FALSE(s.acceptor.start(base::UniqueFd(::open("a-file", O_CREAT | O_RDWR | O_CLOEXEC, 0600))));
}
