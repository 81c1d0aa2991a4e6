// ControlServer: lets other programs of the same user ask a running supervisor. One JSON object a line over a
// Unix stream socket: {"cmd":"status"} -> {"ok":true, "run":"<id>", "ranks":[...], ...}, a LiveStatus
// docs/control.md has the others. An unknown request -> {"ok":false,"code":"bad_request","error":"..."}, and
// changes nothing. Slow, huge, many or silent clients cost a bounded amount of memory and block nothing.
#pragma once

#include "common/base/os/fd.h"
#include "common/base/result.h"
#include "launcher/os/acceptor.h"
#include "launcher/os/event_loop.h"

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>

namespace xpurun::launcher {

class ControlServer {
 public:
  // Answers one request, now or later, exactly once.
  using Reply = std::function<void(const nlohmann::ordered_json&)>;
  using Handler = std::function<void(const nlohmann::json& request, Reply reply)>;

  ControlServer(EventLoop& loop, Handler handler)
      : loop_(loop),
        handler_(std::move(handler)),
        acceptor_(loop, [this](base::UniqueFd fd) { take(std::move(fd)); }) {}
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  base::Status listen(const std::string& path);

 private:
  struct Client {
    base::UniqueFd fd;
    std::string input;
    size_t unanswered = 0;
    bool asks_no_more = false;  // has shut down its sending side
    EventLoop::TimerId deadline = 0;
  };

  void take(base::UniqueFd connection);
  void read_from(int fd);
  void handle_lines(int fd, const std::shared_ptr<Client>& client);
  void handle(int fd, const std::shared_ptr<Client>& client, const std::string& line);
  void input_ended(int fd, const std::shared_ptr<Client>& client);
  void send(int fd, Client& client, const nlohmann::ordered_json& reply);
  // Closes the connection if no request arrives within a time limit.
  void await_request(int fd, Client& client);
  bool known(int fd, const std::shared_ptr<Client>& client) const;
  void drop(int fd);

  EventLoop& loop_;
  Handler handler_;
  Acceptor acceptor_;
  std::map<int, std::shared_ptr<Client>> clients_;
};

}  // namespace xpurun::launcher
