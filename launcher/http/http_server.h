// HttpServer: answers requests on loopback inside the event loop, one request per connection. StreamServer
// bounds what slow, huge, malformed or too many clients cost.
#pragma once

#include "common/base/result.h"
#include "launcher/http/http_request.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/stream_server.h"

#include <functional>
#include <map>
#include <memory>
#include <string>

namespace xpurun::launcher {

class HttpServer {
 public:
  // Answers one request, now or later. A second answer and an answer to a closed connection are ignored.
  using Reply = std::function<void(const HttpResponse&)>;
  using Handler = std::function<void(const HttpRequest&, const Reply&)>;

  HttpServer(EventLoop& loop, Handler handler);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Listens on 127.0.0.1. If the port is in use, takes the next free port of the following hundred. Call
  // once.
  base::Status listen(int port);
  // 0 until it listens.
  int port() const { return port_; }

 private:
  // A request that waits for its answer.
  struct Exchange {
    StreamServer::Id client = 0;
    bool with_body = true;
  };

  void received(StreamServer::Id id, std::string& input);
  void handle(StreamServer::Id id, const HttpRequest& request);
  void answer(StreamServer::Id id, const HttpResponse& response, bool with_body);

  Handler handler_;
  int port_ = 0;
  std::map<StreamServer::Id, std::shared_ptr<Exchange>> exchanges_;
  StreamServer clients_;
};

}  // namespace xpurun::launcher
