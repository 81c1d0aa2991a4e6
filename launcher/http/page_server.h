// PageServer: one file over HTTP on loopback, behind an address that cannot be guessed.
#pragma once

#include "launcher/http/http_server.h"

#include <string>

namespace xpurun::launcher {

class PageServer {
 public:
  PageServer(EventLoop& loop, std::string page, std::string token);

  // Call once; HttpServer::listen() describes the choice of the port.
  base::Status listen(int port) { return http_.listen(port); }
  // 0 until it listens.
  int port() const { return http_.port(); }
  // "http://127.0.0.1:18890/<token>/"
  std::string url() const;

  // The file is read for each request, because it may have been replaced.
  HttpResponse answer(const HttpRequest& request) const;

 private:
  std::string page_;
  std::string token_;
  HttpServer http_;
};

}  // namespace xpurun::launcher
