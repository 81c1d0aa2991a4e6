// HttpServer: answers requests on loopback inside the event loop, one request per connection. Slow, huge,
// malformed or too many clients cost a bounded amount of memory and time and block nothing.
#pragma once

#include "common/base/os/fd.h"
#include "common/base/result.h"
#include "launcher/http/http_request.h"
#include "launcher/os/acceptor.h"
#include "launcher/os/event_loop.h"

#include <functional>
#include <map>
#include <memory>
#include <string>

namespace xpurun::launcher {

class HttpServer {
 public:
  // Answers one request, now or later. A second answer and an answer to a closed connection are ignored.
  using Reply = std::function<void(const HttpResponse&)>;
  using Handler = std::function<void(const HttpRequest&, const Reply&)>;

  HttpServer(EventLoop& loop, Handler handler)
      : loop_(loop),
        handler_(std::move(handler)),
        acceptor_(loop, [this](base::UniqueFd fd) { take(std::move(fd)); }) {}
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Listens on 127.0.0.1. If the port is taken, the next free port of the following hundred is used. Call
  // once.
  base::Status listen(int port);
  // 0 until it listens.
  int port() const { return port_; }

 private:
  struct Client {
    base::UniqueFd fd;
    std::string input;
    std::string output;
    size_t sent = 0;
    enum class State { reading, waiting, answering } state = State::reading;
    bool with_body = true;
    EventLoop::TimerId deadline = 0;
  };

  void take(base::UniqueFd connection);
  void client_ready(int fd, uint32_t events);
  // Closes the connection unless it makes progress within this time.
  void allow(int fd, Client& client, double seconds);
  // False after the client has disconnected.
  bool read_from(int fd, Client& client);
  void handle(int fd, const std::shared_ptr<Client>& client, const HttpRequest& request);
  void answer(int fd, Client& client, const HttpResponse& response);
  void write_to(int fd, Client& client);
  void drop(int fd);

  EventLoop& loop_;
  Handler handler_;
  Acceptor acceptor_;
  int port_ = 0;
  std::map<int, std::shared_ptr<Client>> clients_;
};

}  // namespace xpurun::launcher
