// GpuWatch: the clocks and throttle reasons of this node's GPUs during the whole run, every 5 s, and what
// NVML counts about them, every 30 s, at each dump and at the end. NVML's calls may block, so a helper
// process reads (clock_helper.h) and writes lines of JSON. In a job without a GPU nothing of this runs. Event
// loop's thread only.
#pragma once

#include "common/base/os/wait_status.h"
#include "common/model/evidence/gpu_health.h"
#include "launcher/metrics/node_metrics.h"
#include "launcher/os/event_loop.h"
#include "launcher/spawn/helper_process.h"
#include "launcher/storage/storage.h"

#include <functional>
#include <signal.h>
#include <string>
#include <string_view>

namespace xpurun::launcher {

class GpuWatch {
 public:
  struct Setup {
    EventLoop& loop;
    Storage& storage;
    std::string file;  // path of gpu-health.json
    sigset_t signal_mask{};
    int stderr_fd = -1;
    std::function<void(base::Pid)> started;                  // receives the helper's pid
    std::function<std::string(base::Pid)> name_of_stranger;  // clock_helper.h
    std::string program = "/proc/self/exe";
  };

  explicit GpuWatch(Setup setup) : setup_(std::move(setup)) {}
  ~GpuWatch() { stop(); }
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

  // Acts once; later calls do nothing.
  void start();
  // Reads everything now.
  void look();
  // Gives the helper a moment for its last reading, writes the file, and ends the helper.
  void finish();
  // So far.
  const model::GpuHealth& health() const { return health_; }
  // Since the start, by GPU.
  std::vector<GpuThrottling> throttling() const;
  // By the latest reading: of each GPU the processes that compute on it, as the driver numbers them. Empty:
  // not known.
  const std::vector<std::vector<base::Pid>>& processes() const { return processes_; }
  bool is_helper(base::Pid pid) const { return helper_.pid() > 0 && helper_.pid() == pid; }
  // Call for every reaped child. True if the pid was the helper.
  bool helper_ended(base::Pid pid, base::WaitStatus status);

 private:
  void readable();
  void take(std::string_view line);
  void save();
  void stop();

  Setup setup_;
  bool begun_ = false;
  HelperProcess helper_;
  std::string text_;  // of the line that is not complete yet
  model::GpuHealth health_;
  std::vector<std::vector<base::Pid>> processes_;
  base::MonoNs saved_ = 0;
  size_t news_saved_ = 0;
};

}  // namespace xpurun::launcher
