#include "launcher/http/page_server.h"

#include "common/base/os/io.h"
#include "tests/unit/launcher/no_descriptors.h"
#include "tests/unit/launcher/socket_client.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <unistd.h>

using namespace xpurun;
using namespace xpurun::launcher;
using test::NoDescriptors;
using test::SocketClient;

namespace {

struct PageServerScene {
  EventLoop loop = std::move(*EventLoop::create_simulated(0));
  PageServer server{loop, "page.html", "secret"};

  PageServerScene() { REQUIRE(base::write_file_atomic("page.html", "<p>first</p>")); }
  HttpResponse get(const std::string& path, const std::string& method = "GET") const {
    HttpRequest request;
    request.method = method;
    request.path = path;
    return server.answer(request);
  }
  void step() {
    loop.after(0.001, [this] { loop.stop(); });
    REQUIRE(loop.run());
  }
  std::string ask(const std::string& bytes) {
    const SocketClient client(server.port());
    client.say(bytes);
    step();
    return client.hear_to_the_end();
  }
};

}  // namespace

TEST_CASE("the page is behind its token only") {
  const PageServerScene s;
  CHECK(s.get("/secret/").body == "<p>first</p>");
  CHECK(s.get("/secret/report.html").body == "<p>first</p>");
  CHECK(s.get("/secret").body == "<p>first</p>");
  CHECK(s.get("/secret/", "HEAD").status == 200);
  CHECK(s.get("/secret/").content_type == "text/html; charset=utf-8");
  for (const char* wrong : {"/", "", "/secre/", "/secrets/", "/Secret/", "//secret/", "/secret/../page.html",
                            "/secret/page.html", "/secret//", "/report.html", "/favicon.ico"}) {
    CAPTURE(wrong);
    CHECK(s.get(wrong).status == 404);
    CHECK(s.get(wrong).body.find("first") == std::string::npos);
  }
  CHECK(s.get("/secret/", "POST").status == 405);
  CHECK(s.get("/secret/", "").status == 405);
}

TEST_CASE("the page is read for each request") {
  const PageServerScene s;
  REQUIRE(base::write_file_atomic("page.html", "<p>second</p>"));
  CHECK(s.get("/secret/").body == "<p>second</p>");
  {
    const NoDescriptors full;
    CHECK(s.get("/secret/").status == 503);
  }
  REQUIRE(::unlink("page.html") == 0);
  const HttpResponse gone = s.get("/secret/");
  CHECK(gone.status == 503);
  CHECK(gone.body.find("page.html") != std::string::npos);
  REQUIRE(base::write_file_atomic("page.html", "<p>third</p>"));
  CHECK(s.get("/secret/").status == 200);
}

TEST_CASE("the page over a socket") {
  PageServerScene s;
  CHECK(s.server.port() == 0);
  REQUIRE(s.server.listen(28990));
  CHECK(s.server.url() == fmt::format("http://127.0.0.1:{}/secret/", s.server.port()));
  CHECK(s.ask("GET /secret/ HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n<p>first</p>"));
  const std::string head = s.ask("HEAD /secret/ HTTP/1.1\r\n\r\n");
  CHECK(head.find("ength: 12\r\n") != std::string::npos);
  CHECK(head.ends_with("\r\n\r\n"));
  SUBCASE("garbage is refused") {
    CHECK(s.ask("\x16\x03\x01\r\n\r\n").starts_with("HTTP/1.1 400 "));
  }
  SUBCASE("a client that closes early costs nobody else") {
    SocketClient gone(s.server.port());
    gone.say("GET /secret/ HTTP/1.1\r\n\r\n");
    gone.close();
    CHECK(s.ask("GET /secret/ HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 "));
  }
  SUBCASE("a second page gets the next port") {
    PageServer other(s.loop, "page.html", "other");
    REQUIRE(other.listen(s.server.port()));
    CHECK(other.port() > s.server.port());
    CHECK(other.url().ends_with("/other/"));
  }
}

TEST_CASE("without a free descriptor the page cannot be served") {
  PageServerScene s;
  const NoDescriptors full;
  CHECK_FALSE(s.server.listen(28990));
  CHECK(s.server.port() == 0);
}
