#include "launcher/supervise/control_server.h"

#include "common/model/json_fields.h"
#include "launcher/supervise/unix_socket.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

constexpr size_t kMaxRequest = 64 * 1024;
constexpr size_t kMaxClients = 32;

void send_reply(int fd, const nlohmann::ordered_json& reply) {
  const std::string line =
      reply.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  // Replies are far smaller than a socket buffer; a client that does not read loses its answer, not our time.
  (void)!::send(fd, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

nlohmann::ordered_json error_reply(const std::string& text) {
  return {{"ok", false}, {"error", text}};
}

}  // namespace

ControlServer::~ControlServer() {
  for (const auto& [fd, client] : clients_) {
    loop_.remove(fd);
  }
  if (listener_) {
    loop_.remove(listener_.get());
    ::unlink(path_.c_str());
  }
}

base::Status ControlServer::listen(const std::string& path) {
  XPURUN_TRY_ASSIGN(listener_, listen_unix(path, SOCK_STREAM));
  path_ = path;
  return loop_.add(listener_.get(), EPOLLIN, [this](uint32_t) { accept_all(); });
}

void ControlServer::accept_all() {
  for (;;) {
    base::UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      return;
    }
    if (clients_.size() >= kMaxClients) {
      send_reply(fd.get(), error_reply("too many clients"));
      continue;
    }
    const int number = fd.get();
    clients_[number] = std::make_shared<Client>(Client{std::move(fd), {}});
    if (!loop_.add(number, EPOLLIN, [this, number](uint32_t) { read_from(number); })) {
      clients_.erase(number);
    }
  }
}

void ControlServer::drop(int fd) {
  loop_.remove(fd);
  clients_.erase(fd);
}

void ControlServer::read_from(int fd) {
  const std::shared_ptr<Client> client = clients_.at(fd);
  char buf[4096];
  const ssize_t n = ::recv(fd, buf, sizeof buf, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (n <= 0) {
    drop(fd);
    return;
  }
  client->input.append(buf, static_cast<size_t>(n));
  for (size_t end = client->input.find('\n'); end != std::string::npos; end = client->input.find('\n')) {
    const std::string line = client->input.substr(0, end);
    client->input.erase(0, end + 1);
    answer(fd, line);
  }
  if (client->input.size() > kMaxRequest) {
    send_reply(fd, error_reply("request too long"));
    drop(fd);
  }
}

void ControlServer::answer(int fd, const std::string& line) {
  const auto request = model::parse_json(line);
  if (!request.is_object() || !request.contains("cmd") || !request["cmd"].is_string()) {
    send_reply(fd, error_reply("expected one JSON object with \"cmd\""));
    return;
  }
  // A late answer must not reach another client that was given the same descriptor.
  std::weak_ptr<Client> weak = clients_.at(fd);
  handler_(request, [weak](const nlohmann::ordered_json& reply) {
    if (const auto client = weak.lock()) {
      send_reply(client->fd.get(), reply);
    }
  });
}

}  // namespace xpurun::launcher
