// xpurun report --serve: gives a page to a browser on this host, or at the other end of an ssh tunnel.
#pragma once

#include "launcher/http/http_request.h"

#include <string>

namespace xpurun::launcher {

// One file, behind an address that cannot be guessed. Pure but for reading the file.
class PageServer {
 public:
  PageServer(std::string page, std::string token) : page_(std::move(page)), token_(std::move(token)) {}

  // The file is read for each request: it may be written anew meanwhile.
  HttpResponse answer(const HttpRequest& request) const;
  // "http://127.0.0.1:18890/<token>/"
  std::string url(int port) const;

 private:
  std::string page_;
  std::string token_;
};

inline constexpr int kReportPort = 18890;

// Listens on this port of 127.0.0.1, or on the next free one, says where, and serves until it is killed.
// Returns an exit status if it cannot listen.
int serve_report(const std::string& page, int port);

}  // namespace xpurun::launcher
