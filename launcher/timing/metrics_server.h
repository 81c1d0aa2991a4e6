// MetricsServer: GET /metrics and GET /healthz on loopback.
#pragma once

#include "launcher/http/http_server.h"
#include "launcher/metrics/node_metrics.h"
#include "launcher/os/event_loop.h"

#include <functional>
#include <string>

namespace xpurun::launcher {

class MetricsServer {
 public:
  // `collect` gathers the data of one scrape.
  MetricsServer(EventLoop& loop, std::function<NodeMetrics()> collect);

  // Call once; HttpServer::listen() describes the choice of the port.
  base::Status listen(int port) { return http_.listen(port); }
  // 0 until it listens.
  int port() const { return http_.port(); }
  std::string url() const;

  HttpResponse answer(const HttpRequest& request) const;

 private:
  std::function<NodeMetrics()> collect_;
  HttpServer http_;
};

}  // namespace xpurun::launcher
