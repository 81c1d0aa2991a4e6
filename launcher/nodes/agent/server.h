// Server: the nats-server that the node of rank 0 runs with `--nats auto`. Listens on one address with a
// random token; the configuration file has mode 0600. Started again if it ends, with the same port. Event
// loop's thread only.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"
#include "launcher/os/timer.h"

#include <functional>
#include <string>

namespace xpurun::nodes {

class Server {
 public:
  struct Handlers {
    std::function<void(const std::string& url)> ready;  // may come again, with the same URL
    std::function<void(const std::string& reason)> failed;
  };

  // `address`: name or number; `directory`: for its files, made if needed.
  Server(launcher::EventLoop& loop, std::string address, std::string directory, std::string token,
         Handlers handlers);
  // Ends the server.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  base::Status start();

 private:
  base::Status spawn();
  void look();
  std::string url_when_ready() const;

  launcher::EventLoop& loop_;
  std::string address_;
  std::string directory_;
  std::string token_;
  Handlers handlers_;
  std::string program_;
  std::string port_ = "-1";  // any free one, until it is known
  base::Pid pid_ = 0;
  base::MonoNs started_ = 0;
  bool listens_ = false;
  bool ever_listened_ = false;
  launcher::Timer timer_{loop_};
};

}  // namespace xpurun::nodes
