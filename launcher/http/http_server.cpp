#include "launcher/http/http_server.h"

#include "common/base/os/host.h"

#include <fmt/format.h>

#include <arpa/inet.h>
#include <cerrno>
#include <cstdint>
#include <netinet/in.h>
#include <sys/socket.h>

namespace xpurun::launcher {

namespace {

constexpr size_t kMostClients = 64;
// Time limit for receiving a request and for sending the response.
constexpr double kPatienceS = 10;
// Time limit for computing a response: a dump takes seconds.
constexpr double kLongestAnswerS = 7200;
constexpr int kPortsToTry = 100;

base::Result<base::UniqueFd> bind_to(int port) {
  base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    return base::fail_errno("cannot create a socket");
  }
  const int on = 1;
  // Connections of an earlier run in TIME_WAIT must not block the port.
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd.get(), 128) != 0) {
    return base::fail_errno(fmt::format("cannot listen on 127.0.0.1:{}", port));
  }
  return fd;
}

}  // namespace

HttpServer::HttpServer(EventLoop& loop, Handler handler)
    : handler_(std::move(handler)),
      clients_(loop,
               {.most_clients = kMostClients,
                .too_many = to_bytes({.status = 503, .body = "too many clients\n"}, /*with_body=*/true),
                .request_s = kPatienceS,
                .most_unsent = SIZE_MAX},
               {.received = [this](StreamServer::Id id, std::string& input) { received(id, input); },
                .input_ended = [this](StreamServer::Id id, const std::string&) { clients_.drop(id); },
                .closed = [this](StreamServer::Id id) { exchanges_.erase(id); }}) {}

base::Status HttpServer::listen(int port) {
  auto bound = bind_to(port);
  // Other runs on this host may use the port: the next free one is taken.
  int got = port;
  while (!bound && bound.error().sys_errno == EADDRINUSE && got < port + kPortsToTry && got < 65535) {
    bound = bind_to(++got);
  }
  if (!bound) {
    return base::fail(std::move(bound.error()));
  }
  port_ = got;
  return clients_.start(std::move(*bound));
}

void HttpServer::received(StreamServer::Id id, std::string& input) {
  if (exchanges_.count(id) != 0) {
    // One request per connection.
    input.clear();
    return;
  }
  const HttpParse parsed = parse_http(input);
  if (parsed.state == HttpParse::State::refused) {
    input.clear();
    answer(id, {.status = parsed.status, .body = "unknown request\n"}, true);
  } else if (parsed.state == HttpParse::State::complete) {
    input.clear();
    if (parsed.request.is_from_a_web_page(base::host_name())) {
      answer(id, {.status = 403, .body = "not for web pages; ask for localhost or 127.0.0.1\n"}, true);
    } else {
      handle(id, parsed.request);
    }
  }
}

void HttpServer::handle(StreamServer::Id id, const HttpRequest& request) {
  const auto exchange = std::make_shared<Exchange>(Exchange{id, request.method != "HEAD"});
  exchanges_[id] = exchange;
  clients_.set_deadline(id, kLongestAnswerS);
  // The answer may come when the client, or this server, is gone.
  handler_(request, [this, weak = std::weak_ptr<Exchange>(exchange)](const HttpResponse& response) {
    if (const auto open = weak.lock()) {
      exchanges_.erase(open->client);
      answer(open->client, response, open->with_body);
    }
  });
}

void HttpServer::answer(StreamServer::Id id, const HttpResponse& response, bool with_body) {
  clients_.set_deadline(id, kPatienceS);
  clients_.send(id, to_bytes(response, with_body));
  clients_.finish(id);
}

}  // namespace xpurun::launcher
