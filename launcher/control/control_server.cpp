#include "launcher/control/control_server.h"

#include "common/model/json_fields.h"
#include "launcher/os/unix_socket.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <utility>

namespace xpurun::launcher {

namespace {

constexpr size_t kMaxRequest = 64 * 1024;
constexpr size_t kMaxClients = 32;
// Unanswered requests of one client: dumps and traces take time.
constexpr size_t kMaxUnanswered = 16;
constexpr double kIdleS = 30;

std::string line_of(const nlohmann::ordered_json& reply) {
  return reply.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

nlohmann::ordered_json error_reply(const char* code, const std::string& text) {
  return {{"ok", false}, {"code", code}, {"error", text}};
}

}  // namespace

ControlServer::~ControlServer() {
  while (!clients_.empty()) {
    drop(clients_.begin()->first);
  }
}

base::Status ControlServer::listen(const std::string& path) {
  XPURUN_TRY_ASSIGN(base::UniqueFd listener, listen_unix(path, SOCK_STREAM));
  return acceptor_.start(std::move(listener));
}

void ControlServer::take(base::UniqueFd fd) {
  if (clients_.size() >= kMaxClients) {
    const std::string busy = line_of(error_reply("busy", "too many clients"));
    (void)!::send(fd.get(), busy.data(), busy.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return;
  }
  const int number = fd.get();
  const auto client = clients_[number] = std::make_shared<Client>();
  client->fd = std::move(fd);
  await_request(number, *client);
  if (!loop_.add(number, EPOLLIN, [this, number](uint32_t) { read_from(number); })) {
    drop(number);
  }
}

void ControlServer::await_request(int fd, Client& client) {
  loop_.cancel(client.deadline);
  client.deadline = loop_.after(kIdleS, [this, fd] { drop(fd); });
}

bool ControlServer::known(int fd, const std::shared_ptr<Client>& client) const {
  const auto it = clients_.find(fd);
  return it != clients_.end() && it->second == client;
}

void ControlServer::drop(int fd) {
  loop_.remove(fd);
  if (const auto it = clients_.find(fd); it != clients_.end()) {
    loop_.cancel(it->second->deadline);
    clients_.erase(it);
  }
}

void ControlServer::read_from(int fd) {
  const std::shared_ptr<Client> client = clients_.at(fd);
  char buf[4096];
  const ssize_t n = ::recv(fd, buf, sizeof buf, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (n == 0) {
    input_ended(fd, client);
    return;
  }
  if (n < 0) {
    drop(fd);
    return;
  }
  client->input.append(buf, static_cast<size_t>(n));
  handle_lines(fd, client);
  if (known(fd, client) && client->input.size() > kMaxRequest) {
    send(fd, *client, error_reply("bad_request", "request too long"));
    drop(fd);
  }
}

// `nc -N` and socat shut down their sending side and wait for the answer. One that has closed the whole
// connection looks the same here; sending to it will fail.
void ControlServer::input_ended(int fd, const std::shared_ptr<Client>& client) {
  loop_.remove(fd);
  client->asks_no_more = true;
  if (!client->input.empty()) {  // the last line may have no newline
    handle(fd, client, std::exchange(client->input, {}));
  }
  if (known(fd, client) && client->unanswered == 0) {
    drop(fd);
  }
}

void ControlServer::handle_lines(int fd, const std::shared_ptr<Client>& client) {
  size_t begin = 0;
  size_t end = 0;
  while (known(fd, client) && (end = client->input.find('\n', begin)) != std::string::npos) {
    handle(fd, client, client->input.substr(begin, end - begin));
    begin = end + 1;
  }
  client->input.erase(0, begin);
}

void ControlServer::handle(int fd, const std::shared_ptr<Client>& client, const std::string& line) {
  const auto request = model::parse_json(line);
  if (!request.is_object() || !request.contains("cmd") || !request["cmd"].is_string()) {
    send(fd, *client, error_reply("bad_request", "expected one JSON object with \"cmd\""));
    return;
  }
  if (client->unanswered >= kMaxUnanswered) {
    send(fd, *client, error_reply("busy", "too many requests at a time"));
    return;
  }
  ++client->unanswered;
  loop_.cancel(client->deadline);
  // A late answer must not reach another client that was given the same descriptor.
  handler_(request, [this, fd, weak = std::weak_ptr<Client>(client)](const nlohmann::ordered_json& reply) {
    const auto there = weak.lock();
    if (!there || !known(fd, there)) {
      return;
    }
    --there->unanswered;
    send(fd, *there, reply);
    if (!known(fd, there) || there->unanswered > 0) {
      return;
    }
    if (there->asks_no_more) {
      drop(fd);
    } else {
      await_request(fd, *there);
    }
  });
}

void ControlServer::send(int fd, Client& client, const nlohmann::ordered_json& reply) {
  const std::string line = line_of(reply);
  // Replies are far smaller than a socket buffer. A client that does not read is disconnected: a partial line
  // would corrupt the following replies.
  const ssize_t n = ::send(client.fd.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n != static_cast<ssize_t>(line.size())) {
    drop(fd);
  }
}

}  // namespace xpurun::launcher
