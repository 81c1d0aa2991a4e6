#include "launcher/timing/metrics_server.h"

#include "launcher/metrics/exposition.h"

#include <fmt/format.h>

namespace xpurun::launcher {

MetricsServer::MetricsServer(EventLoop& loop, std::function<NodeMetrics()> collect)
    : collect_(std::move(collect)),
      http_(loop,
            [this](const HttpRequest& request, const HttpServer::Reply& reply) { reply(answer(request)); }) {}

std::string MetricsServer::url() const {
  return fmt::format("http://127.0.0.1:{}/metrics", http_.port());
}

HttpResponse MetricsServer::answer(const HttpRequest& request) const {
  if (request.method != "GET" && request.method != "HEAD") {
    return {.status = 405, .body = "GET /metrics or GET /healthz\n"};
  }
  if (request.path == "/healthz") {
    return {.body = "ok\n"};
  }
  if (request.path != "/metrics") {
    return {.status = 404, .body = "there are /metrics and /healthz\n"};
  }
  const std::string* accept = request.header("accept");
  const bool open = accept != nullptr && accept->find("application/openmetrics-text") != std::string::npos;
  const MetricsFormat format = open ? MetricsFormat::openmetrics : MetricsFormat::prometheus;
  return {.content_type = std::string(content_type(format)), .body = expose(collect_(), format)};
}

}  // namespace xpurun::launcher
