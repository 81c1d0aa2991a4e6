#include "launcher/control/control_server.h"

#include "common/model/json/json_text.h"
#include "common/model/json_fields.h"
#include "launcher/os/unix_socket.h"

#include <nlohmann/json.hpp>

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
  return model::json_text(reply) + "\n";
}

nlohmann::ordered_json error_reply(const char* code, const std::string& text) {
  return {{"ok", false}, {"code", code}, {"error", text}};
}

}  // namespace

ControlServer::ControlServer(EventLoop& loop, Handler handler)
    : handler_(std::move(handler)),
      // Replies are far smaller than a socket buffer. A client that does not read is disconnected: a partial
      // line would corrupt the following replies.
      clients_(
          loop,
          {.most_clients = kMaxClients,
           .too_many = line_of(error_reply("busy", "too many clients")),
           .request_s = kIdleS,
           .most_unsent = 0},
          {.received = [this](StreamServer::Id id, std::string& input) { received(id, input); },
           .input_ended = [this](StreamServer::Id id, const std::string& last) { input_ended(id, last); },
           .closed = [this](StreamServer::Id id) { asking_.erase(id); }}) {}

base::Status ControlServer::listen(const std::string& path) {
  XPURUN_TRY_ASSIGN(base::UniqueFd listener, listen_unix(path, SOCK_STREAM));
  return clients_.start(std::move(listener));
}

std::shared_ptr<ControlServer::Client> ControlServer::client_of(StreamServer::Id id) {
  auto& client = asking_[id];
  if (!client) {
    client = std::make_shared<Client>(Client{.id = id});
  }
  return client;
}

void ControlServer::received(StreamServer::Id id, std::string& input) {
  size_t begin = 0;
  size_t end = 0;
  while (clients_.known(id) && (end = input.find('\n', begin)) != std::string::npos) {
    handle(id, input.substr(begin, end - begin));
    begin = end + 1;
  }
  input.erase(0, begin);
  if (clients_.known(id) && input.size() > kMaxRequest) {
    send(id, error_reply("bad_request", "request too long"));
    clients_.drop(id);
  }
}

// `nc -N` and socat shut down their sending side and wait for the answer. A client that has closed the whole
// connection looks the same here; sending to it will fail.
void ControlServer::input_ended(StreamServer::Id id, const std::string& last_line) {
  const auto client = client_of(id);
  client->asks_no_more = true;
  if (!last_line.empty()) {  // the last line may have no newline
    handle(id, last_line);
  }
  if (client->unanswered == 0) {
    clients_.drop(id);
  }
}

void ControlServer::handle(StreamServer::Id id, const std::string& line) {
  const auto request = model::parse_json(line);
  if (!request.is_object() || !request.contains("cmd") || !request["cmd"].is_string()) {
    send(id, error_reply("bad_request", "expected one JSON object with \"cmd\""));
    return;
  }
  const auto client = client_of(id);
  if (client->unanswered >= kMaxUnanswered) {
    send(id, error_reply("busy", "too many requests at a time"));
    return;
  }
  ++client->unanswered;
  clients_.clear_deadline(id);
  // The answer may come when the client, or this server, is gone.
  handler_(request, [this, weak = std::weak_ptr<Client>(client)](const nlohmann::ordered_json& reply) {
    if (const auto there = weak.lock()) {
      answered(there, reply);
    }
  });
}

void ControlServer::answered(const std::shared_ptr<Client>& client, const nlohmann::ordered_json& reply) {
  --client->unanswered;
  send(client->id, reply);
  if (client->unanswered > 0) {
    return;
  }
  if (client->asks_no_more) {
    clients_.drop(client->id);
  } else {
    clients_.set_deadline(client->id, kIdleS);
  }
}

void ControlServer::send(StreamServer::Id id, const nlohmann::ordered_json& reply) {
  clients_.send(id, line_of(reply));
}

}  // namespace xpurun::launcher
