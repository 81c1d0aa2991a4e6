#include "launcher/commands/report_serve.h"

#include "common/base/os/io.h"
#include "launcher/commands/commands.h"
#include "launcher/control/control_http.h"
#include "launcher/http/http_server.h"
#include "launcher/options/exit_status.h"

#include <fmt/format.h>

#include <unistd.h>

namespace xpurun::launcher {

namespace {

constexpr size_t kLargestPage = size_t{64} << 20;

std::string this_host() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "HOST";
}

}  // namespace

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

std::string PageServer::url(int port) const {
  return fmt::format("http://127.0.0.1:{}/{}/", port, token_);
}

int serve_report(const std::string& page, int port) {
  auto token = make_token();
  if (!token) {
    return complain(token.error(), kExitFailure);
  }
  auto loop = EventLoop::create();
  if (!loop) {
    return complain(loop.error(), kExitFailure);
  }
  const PageServer server(page, std::move(*token));
  HttpServer http(*loop, [&server](const HttpRequest& request, const HttpServer::Reply& reply) {
    reply(server.answer(request));
  });
  if (const auto listening = http.listen(port); !listening) {
    base::Error error = listening.error();
    error.hint = "choose another port with --port PORT";
    return complain(error, kExitFailure);
  }
  const int got = http.port();
  (void)print(fmt::format(
      "\nreport: {}\n{}from another machine: ssh -L {}:127.0.0.1:{} {}, then open the same address\n"
      "Ctrl-C ends\n",
      server.url(got), got == port ? "" : fmt::format("(port {} is taken)\n", port), got, got, this_host()));
  const auto ran = loop->run();
  return ran ? 0 : complain(ran.error(), kExitFailure);
}

}  // namespace xpurun::launcher
