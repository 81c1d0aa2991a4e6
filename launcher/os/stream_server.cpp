#include "launcher/os/stream_server.h"

#include <algorithm>
#include <cerrno>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <utility>

namespace xpurun::launcher {

namespace {
// Also the longest message of a SOCK_SEQPACKET socket: recv(2) discards the rest of a longer one.
constexpr size_t kChunk = 72 * 1024;
}  // namespace

StreamServer::StreamServer(EventLoop& loop, Limits limits, Handlers handlers)
    : loop_(loop),
      chunk_(kChunk),
      limits_(std::move(limits)),
      handlers_(std::move(handlers)),
      acceptor_(loop, [this](base::UniqueFd fd) { take(std::move(fd)); }) {}

StreamServer::~StreamServer() {
  acceptor_.close();
  for (const auto& [id, client] : clients_) {
    loop_.remove(client.fd.get());
    loop_.cancel(client.deadline);
  }
}

StreamServer::Client* StreamServer::find(Id id) {
  const auto it = clients_.find(id);
  return it == clients_.end() ? nullptr : &it->second;
}

int StreamServer::descriptor(Id id) const {
  const auto it = clients_.find(id);
  return it == clients_.end() ? -1 : it->second.fd.get();
}

void StreamServer::take(base::UniqueFd connection) {
  if (clients_.size() >= limits_.most_clients && !make_room()) {
    // Best effort: the connection is closed right afterwards in any case.
    (void)!::send(connection.get(), limits_.too_many.data(), limits_.too_many.size(),
                  MSG_NOSIGNAL | MSG_DONTWAIT);
    return;
  }
  const Id id = next_++;
  Client& client = clients_[id];
  client.fd = std::move(connection);
  client.since = loop_.now();
  set_timer(client, id, limits_.request_s);
  watch(id);
}

bool StreamServer::make_room() {
  // By age, because the ids grow.
  const auto silent = std::find_if(clients_.begin(), clients_.end(), [this](const auto& entry) {
    return !entry.second.has_asked && loop_.now() - entry.second.since >= base::s_to_ns(limits_.silent_s);
  });
  if (silent == clients_.end()) {
    return false;
  }
  drop(silent->first);
  return true;
}

void StreamServer::watch(Id id) {
  Client* client = find(id);
  if (client == nullptr) {
    return;
  }
  const bool unsent = client->sent < client->output.size();
  const uint32_t wanted = (client->reads ? EPOLLIN : 0U) | (unsent ? EPOLLOUT : 0U);
  if (wanted == client->watched) {
    return;
  }
  client->watched = wanted;
  if (wanted == 0) {
    // A closed connection is always ready (EPOLLHUP cannot be masked), and a level-triggered loop would spin
    // on it.
    loop_.remove(client->fd.get());
  } else if (!loop_.add(client->fd.get(), wanted, [this, id](uint32_t events) { ready(id, events); })) {
    drop(id);
  }
}

void StreamServer::ready(Id id, uint32_t events) {
  Client* client = find(id);
  // A client that only waits for an answer has shut down its sending side. EPOLLHUP then means that both
  // sides are closed.
  if (client != nullptr && !client->reads && (events & (EPOLLERR | EPOLLHUP)) != 0) {
    drop(id);
    return;
  }
  if ((events & EPOLLOUT) != 0) {
    flush(id);
    client = find(id);
  }
  if (client != nullptr && client->reads && (events & ~static_cast<uint32_t>(EPOLLOUT)) != 0) {
    read_some(id);
  }
  watch(id);
}

void StreamServer::read_some(Id id) {
  Client* client = find(id);
  const ssize_t n = ::recv(client->fd.get(), chunk_.data(), chunk_.size(), 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (n < 0) {
    drop(id);
    return;
  }
  if (n == 0) {
    end_input(id);
    return;
  }
  // The input is moved out of the client, because the handler may drop the client while it holds the
  // reference.
  std::string input = std::exchange(client->input, {});
  input.append(chunk_.data(), static_cast<size_t>(n));
  handlers_.received(id, input);
  if (client = find(id); client != nullptr) {
    client->input = std::move(input);
  }
}

void StreamServer::end_input(Id id) {
  Client* client = find(id);
  client->reads = false;
  watch(id);
  if (client = find(id); client != nullptr) {
    handlers_.input_ended(id, std::exchange(client->input, {}));
  }
}

void StreamServer::send(Id id, std::string_view bytes) {
  Client* client = find(id);
  if (client == nullptr) {
    return;
  }
  client->output += bytes;
  flush(id);
  if (client = find(id); client != nullptr && client->output.size() - client->sent > limits_.most_unsent) {
    drop(id);
  }
  watch(id);
}

void StreamServer::flush(Id id) {
  Client* client = find(id);
  while (client->sent < client->output.size()) {
    const ssize_t n = ::send(client->fd.get(), client->output.data() + client->sent,
                             client->output.size() - client->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0 && errno == EAGAIN) {
      return;
    }
    if (n < 0) {
      drop(id);
      return;
    }
    client->sent += static_cast<size_t>(n);
  }
  client->output.clear();
  client->sent = 0;
  if (client->finishing) {
    // close(2) with unread input sends RST, and the client could lose the response.
    ::shutdown(client->fd.get(), SHUT_WR);
    while (::recv(client->fd.get(), chunk_.data(), chunk_.size(), MSG_DONTWAIT) > 0) {
    }
    drop(id);
  }
}

void StreamServer::finish(Id id) {
  if (Client* client = find(id)) {
    client->reads = false;
    client->finishing = true;
    flush(id);
    watch(id);
  }
}

void StreamServer::drop(Id id) {
  const auto it = clients_.find(id);
  if (it == clients_.end()) {
    return;
  }
  loop_.remove(it->second.fd.get());
  loop_.cancel(it->second.deadline);
  clients_.erase(it);
  handlers_.closed(id);
}

void StreamServer::set_deadline(Id id, double seconds) {
  if (Client* client = find(id)) {
    client->has_asked = true;
    set_timer(*client, id, seconds);
  }
}

void StreamServer::set_timer(Client& client, Id id, double seconds) {
  loop_.cancel(client.deadline);
  client.deadline = loop_.after(seconds, [this, id] { drop(id); });
}

void StreamServer::clear_deadline(Id id) {
  if (Client* client = find(id)) {
    client->has_asked = true;
    loop_.cancel(std::exchange(client->deadline, 0));
  }
}

}  // namespace xpurun::launcher
