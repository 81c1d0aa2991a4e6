// Listeners: the sockets and ports of the supervisor: notices of the preload library, control requests, and,
// on request, control over HTTP and /metrics. Their addresses go into run.json and to the user. A listener
// that cannot start costs only its own service.
#pragma once

#include "launcher/control/notice_server.h"
#include "launcher/journal/journal.h"
#include "launcher/options/run_options.h"
#include "launcher/storage/socket_place.h"
#include "launcher/storage/storage.h"
#include "launcher/supervise/control_api.h"
#include "launcher/timing/metrics_server.h"

#include <functional>
#include <optional>
#include <string>

namespace xpurun::launcher {

class Listeners {
 public:
  struct Parts {
    Journal& journal;
    const RunOptions& options;
    NoticeServer& notices;
    ControlApi& control;
    MetricsServer& metrics;
  };
  Listeners(Parts parts, std::function<void(const std::string&)> say) : parts_(parts), say_(std::move(say)) {}

  // Before the command starts.
  void open(const DirFacts& run_dir);
  // Acts once; does nothing if the user does not want /metrics. Without a port from the user, this is called
  // when the first rank is found.
  void open_metrics();
  // Removes the sockets.
  void remove(Storage& storage) const;

  // The path of the notice socket; empty if there is none. Absolute, because a rank may have changed its
  // directory before it crashes.
  const std::string& notice_path() const { return notice_path_; }

 private:
  base::Status open_sockets(const DirFacts& run_dir);
  void open_control_http();

  Parts parts_;
  std::function<void(const std::string&)> say_;
  bool metrics_opened_ = false;  // an attempt to listen was made
  std::optional<SocketPlace> place_;
  std::string notice_path_;
};

}  // namespace xpurun::launcher
