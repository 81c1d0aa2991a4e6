#include "launcher/timing/metrics_server.h"

#include "launcher/metrics/exposition.h"
#include "tests/unit/launcher/no_descriptors.h"
#include "tests/unit/launcher/socket_client.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace xpurun;
using namespace xpurun::launcher;
using test::NoDescriptors;
using test::SocketClient;

namespace {

struct MetricsServerScene {
  EventLoop loop = std::move(*EventLoop::create_simulated(0));
  int scrapes = 0;
  MetricsServer server{loop, [this] {
                         ++scrapes;
                         return NodeMetrics();
                       }};

  HttpResponse get(const std::string& path, const std::string& accept = {},
                   const std::string& method = "GET") const {
    HttpRequest request;
    request.method = method;
    request.path = path;
    if (!accept.empty()) {
      request.headers.emplace_back("accept", accept);
    }
    return server.answer(request);
  }
  void step() {
    loop.after(0.001, [this] { loop.stop(); });
    REQUIRE(loop.run());
  }
};

}  // namespace

TEST_CASE("a scrape gets the format that it accepts") {
  const MetricsServerScene s;
  const HttpResponse plain = s.get("/metrics");
  CHECK(plain.status == 200);
  CHECK(plain.content_type == content_type(MetricsFormat::prometheus));
  CHECK(plain.body.find("# EOF") == std::string::npos);
  const HttpResponse open = s.get("/metrics", "application/openmetrics-text; version=1.0.0,text/plain;q=0.5");
  CHECK(open.content_type == content_type(MetricsFormat::openmetrics));
  CHECK(open.body.ends_with("# EOF\n"));
  CHECK(s.get("/metrics", "text/html,*/*").content_type == plain.content_type);
}

TEST_CASE("only a scrape gathers data") {
  const MetricsServerScene s;
  CHECK(s.get("/healthz").body == "ok\n");
  CHECK(s.get("/").status == 404);
  CHECK(s.get("/metrics/").status == 404);
  CHECK(s.get("/metrics", "", "POST").status == 405);
  CHECK(s.get("/healthz", "", "DELETE").status == 405);
  CHECK(s.scrapes == 0);
  CHECK(s.get("/metrics").status == 200);
  CHECK(s.get("/metrics", "", "HEAD").status == 200);
  CHECK(s.scrapes == 2);
}

TEST_CASE("metrics over a socket") {
  MetricsServerScene s;
  CHECK(s.server.port() == 0);
  REQUIRE(s.server.listen(28790));
  CHECK(s.server.url() == fmt::format("http://127.0.0.1:{}/metrics", s.server.port()));
  SocketClient gone(s.server.port());
  gone.say("GET /metrics HTTP/1.1\r\n\r\n");
  gone.close();
  const SocketClient garbage(s.server.port());
  garbage.say("\r\n\r\n");
  const SocketClient client(s.server.port());
  client.say("GET /healthz HTTP/1.1\r\n\r\n");
  s.step();
  CHECK(client.hear_to_the_end().ends_with("\r\n\r\nok\n"));
  CHECK(garbage.hear_to_the_end().starts_with("HTTP/1.1 400 "));
}

TEST_CASE("without a free descriptor there are no metrics") {
  MetricsServerScene s;
  const NoDescriptors full;
  CHECK_FALSE(s.server.listen(28790));
  CHECK(s.server.port() == 0);
}
