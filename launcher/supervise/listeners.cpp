#include "launcher/supervise/listeners.h"

#include "common/base/output/log.h"

#include <fmt/format.h>

#include <utility>

namespace xpurun::launcher {

void Listeners::open(const DirFacts& run_dir) {
  if (auto opened = open_sockets(run_dir); !opened) {
    base::log_warn("no sockets: {}", base::to_line(opened.error()));
  }
  if (parts_.options.metrics_port > 0) {
    open_metrics();
  }
  open_control_http();
}

base::Status Listeners::open_sockets(const DirFacts& run_dir) {
  XPURUN_TRY_ASSIGN(SocketPlace place, SocketPlace::choose(run_dir));
  place_.emplace(std::move(place));
  notice_path_ = place_->path(SocketPlace::kNotice);
  XPURUN_TRY(parts_.notices.listen(notice_path_));
  const std::string control_path = place_->path(SocketPlace::kControl);
  XPURUN_TRY(parts_.control.listen(control_path));
  parts_.journal.manifest().control = control_path;
  return {};
}

void Listeners::remove(Storage& storage) const {
  if (place_) {
    place_->remove(storage);
  }
}

void Listeners::open_metrics() {
  MetricsServer& metrics = parts_.metrics;
  const RunOptions& options = parts_.options;
  if (options.metrics_port == kNoPort || std::exchange(metrics_opened_, true)) {
    return;
  }
  const bool port_given = options.metrics_port > 0;
  if (const auto listening = metrics.listen(port_given ? options.metrics_port : kMetricsPort); !listening) {
    const std::string why = base::to_line(listening.error());
    port_given ? base::log_warn("no /metrics: {}", why) : base::log_info("no /metrics: {}", why);
    return;
  }
  parts_.journal.manifest().metrics = metrics.url();
  base::log_info("metrics at {}", metrics.url());
  // A port that the user did not request appears only in run.json and in the log.
  if (options.verbosity >= 0 && port_given) {
    say_(fmt::format("metrics at {}", metrics.url()));
  }
  parts_.journal.changed();
}

void Listeners::open_control_http() {
  if (parts_.options.control_port == kNoPort) {
    return;
  }
  ControlApi& control = parts_.control;
  if (const auto listening = control.listen_http(); !listening) {
    base::log_warn("no control over HTTP: {}", base::to_line(listening.error()));
    return;
  }
  parts_.journal.manifest().control_url = control.url();
  const std::string text = fmt::format("control at {}, {}", control.url(), control.how_to_ask());
  base::log_info("{}", text);
  if (parts_.options.verbosity >= 0) {
    say_(text);
  }
}

}  // namespace xpurun::launcher
