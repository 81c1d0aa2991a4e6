#include "launcher/http/page_server.h"

#include "common/base/os/io.h"
#include "launcher/http/token.h"

#include <fmt/format.h>

namespace xpurun::launcher {

namespace {

constexpr size_t kLargestPage = size_t{64} << 20;

}  // namespace

PageServer::PageServer(EventLoop& loop, std::string page, std::string token)
    : page_(std::move(page)),
      token_(std::move(token)),
      http_(loop,
            [this](const HttpRequest& request, const HttpServer::Reply& reply) { reply(answer(request)); }) {}

std::string PageServer::url() const {
  return fmt::format("http://127.0.0.1:{}/{}/", http_.port(), token_);
}

HttpResponse PageServer::answer(const HttpRequest& request) const {
  if (request.method != "GET" && request.method != "HEAD") {
    return {.status = 405, .body = "only GET\n"};
  }
  if (request.path == "/favicon.ico") {
    return {.status = 404, .body = ""};
  }
  // "/<token>/report.html"
  const std::string path = request.path.starts_with('/') ? request.path.substr(1) : request.path;
  const size_t end = path.find('/');
  if (!same_secret(path.substr(0, end), token_)) {
    return {.status = 404,
            .body = "not here: open the whole address that xpurun report --serve has printed\n"};
  }
  const std::string name = end == std::string::npos ? "" : path.substr(end + 1);
  if (!name.empty() && name != "report.html") {
    return {.status = 404, .body = "there is the report only: everything is in that page\n"};
  }
  auto page = base::read_file(page_, kLargestPage);
  if (!page) {
    return {.status = 503, .body = base::to_line(page.error()) + "\n"};
  }
  return {.content_type = "text/html; charset=utf-8", .body = std::move(*page)};
}

}  // namespace xpurun::launcher
