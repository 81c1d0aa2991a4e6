// ControlServer: lets other programs of the same user ask a running supervisor. One JSON object a line over a
// Unix stream socket:
//   {"cmd":"status"}               -> {"ok":true, "run":"<id>", "ranks":[...], ...}, a LiveStatus
//   {"cmd":"dump","why":"request"} -> {"ok":true, "dir":"dumps/2-request"} once it is complete
//   {"cmd":"timing","level":"full"} -> {"ok":true,"level":"full"}; off, light or full, from now on
// Anything else -> {"ok":false,"error":"..."}. A request changes nothing unless it was understood.
#pragma once

#include "common/base/fd.h"
#include "common/base/result.h"
#include "launcher/supervise/event_loop.h"

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

  ControlServer(EventLoop& loop, Handler handler) : loop_(loop), handler_(std::move(handler)) {}
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  base::Status listen(const std::string& path);

 private:
  struct Client {
    base::UniqueFd fd;
    std::string input;
  };

  void accept_all();
  void read_from(int fd);
  void answer(int fd, const std::string& line);
  void drop(int fd);

  EventLoop& loop_;
  Handler handler_;
  base::UniqueFd listener_;
  std::string path_;
  std::map<int, std::shared_ptr<Client>> clients_;
};

}  // namespace xpurun::launcher
