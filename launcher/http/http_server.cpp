#include "launcher/http/http_server.h"

#include <fmt/format.h>

#include <arpa/inet.h>
#include <cerrno>
#include <netinet/in.h>
#include <sys/epoll.h>
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

HttpServer::~HttpServer() {
  while (!clients_.empty()) {
    drop(clients_.begin()->first);
  }
}

base::Status HttpServer::listen(int port) {
  auto bound = bind_to(port);
  int got = port;
  while (!bound && bound.error().sys_errno == EADDRINUSE && got < port + kPortsToTry && got < 65535) {
    bound = bind_to(++got);
  }
  if (!bound) {
    return base::fail(std::move(bound.error()));
  }
  port_ = got;
  return acceptor_.start(std::move(*bound));
}

void HttpServer::take(base::UniqueFd fd) {
  if (clients_.size() >= kMostClients) {
    const std::string busy = to_bytes({.status = 503, .body = "too many clients\n"}, /*with_body=*/true);
    (void)!::send(fd.get(), busy.data(), busy.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return;
  }
  const int number = fd.get();
  const auto client = clients_[number] = std::make_shared<Client>();
  client->fd = std::move(fd);
  allow(number, *client, kPatienceS);
  if (!loop_.add(number, EPOLLIN, [this, number](uint32_t events) { client_ready(number, events); })) {
    drop(number);
  }
}

void HttpServer::allow(int fd, Client& client, double seconds) {
  loop_.cancel(client.deadline);
  client.deadline = loop_.after(seconds, [this, fd] { drop(fd); });
}

void HttpServer::drop(int fd) {
  loop_.remove(fd);
  if (const auto it = clients_.find(fd); it != clients_.end()) {
    loop_.cancel(it->second->deadline);
    clients_.erase(it);
  }
}

void HttpServer::client_ready(int fd, uint32_t events) {
  const auto it = clients_.find(fd);
  if (it == clients_.end()) {
    return;
  }
  const std::shared_ptr<Client> client = it->second;
  if (client->state == Client::State::answering) {
    if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
      drop(fd);
    } else {
      write_to(fd, *client);
    }
    return;
  }
  if (!read_from(fd, *client)) {
    return;
  }
  if (client->state == Client::State::waiting) {
    // One request per connection.
    client->input.clear();
    return;
  }
  const HttpParse parsed = parse_http(client->input);
  if (parsed.state == HttpParse::State::refused) {
    answer(fd, *client, {.status = parsed.status, .body = "this is no request that is understood here\n"});
  } else if (parsed.state == HttpParse::State::complete) {
    handle(fd, client, parsed.request);
  }
}

void HttpServer::handle(int fd, const std::shared_ptr<Client>& client, const HttpRequest& request) {
  client->state = Client::State::waiting;
  client->with_body = request.method != "HEAD";
  client->input.clear();
  allow(fd, *client, kLongestAnswerS);
  // A late answer must not reach a new client with the same descriptor number.
  handler_(request, [this, fd, weak = std::weak_ptr<Client>(client)](const HttpResponse& response) {
    const auto there = weak.lock();
    if (there && there->state == Client::State::waiting) {
      answer(fd, *there, response);
    }
  });
}

bool HttpServer::read_from(int fd, Client& client) {
  char buffer[8192];
  const ssize_t n = ::recv(fd, buffer, sizeof buffer, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    return true;
  }
  if (n <= 0) {
    drop(fd);
    return false;
  }
  client.input.append(buffer, static_cast<size_t>(n));
  return true;
}

void HttpServer::answer(int fd, Client& client, const HttpResponse& response) {
  client.state = Client::State::answering;
  client.output = to_bytes(response, client.with_body);
  client.input.clear();
  allow(fd, client, kPatienceS);
  write_to(fd, client);
}

void HttpServer::write_to(int fd, Client& client) {
  while (client.sent < client.output.size()) {
    const ssize_t n = ::send(fd, client.output.data() + client.sent, client.output.size() - client.sent,
                             MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0 && errno == EAGAIN) {
      if (!loop_.add(fd, EPOLLOUT, [this, fd](uint32_t events) { client_ready(fd, events); })) {
        drop(fd);
      }
      return;
    }
    if (n < 0) {
      drop(fd);
      return;
    }
    client.sent += static_cast<size_t>(n);
  }
  // Closing with unread input would send RST, and the client could lose the response.
  ::shutdown(fd, SHUT_WR);
  char rest[8192];
  while (::recv(fd, rest, sizeof rest, MSG_DONTWAIT) > 0) {
  }
  drop(fd);
}

}  // namespace xpurun::launcher
