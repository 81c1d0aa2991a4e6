// The helpers that read the GPUs' clocks, power and throttle reasons: xpurun itself in other roles, because
// NVML's calls may block. One reads often during a capture, writes one file (model::ClockSamples) and ends.
// The other reads every few seconds during the run, and prints lines of JSON each time: the clocks, what NVML
// counts about the GPUs (model::MachineReading), and what the GPUs are, where that has changed.
#pragma once

#include "common/model/evidence/gpu_health.h"
#include "common/model/evidence/gpu_state.h"
#include "common/model/speed/gpu_capture.h"
#include "launcher/evidence/gpu_count_reader.h"
#include "launcher/evidence/nvml.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

// First word of the helper's command line. Not an option of xpurun.
inline constexpr std::string_view kClockRole = "--sample-clocks";

inline constexpr std::string_view kWatchRole = "--watch-clocks";
inline constexpr double kWatchIntervalS = 5;

// `out` is the file to write.
std::vector<std::string> clock_words(double seconds, const std::string& out);

// Sums up readings of the same GPUs. Pure.
class ClockSummary {
 public:
  void add(const std::vector<model::GpuDevice>& gpus);
  std::vector<model::GpuClocks> clocks() const;

 private:
  struct Gpu {
    model::GpuDevice newest;
    std::vector<double> clocks;
    std::vector<double> power;
    std::vector<double> utilization;
    int temperature = -1;
    uint64_t reasons[model::kThrottleReasons] = {};
    uint64_t samples = 0;
  };
  std::vector<Gpu> gpus_;
};

// Reads every 10 ms for this time. `library`: NVML's.
model::ClockSamples sample_clocks(double seconds, const std::string& library);

std::vector<std::string> watch_words(double interval_s);
// Parses a line of the helper that watches. A damaged line gives no reading.
std::string watched_line(const std::vector<model::GpuDevice>& gpus);
std::vector<model::GpuClockReading> watched_gpus_from(std::string_view line);

// What these GPUs do at the moment.
std::vector<model::UseValue> gpu_use(const std::vector<model::GpuDevice>& gpus);

// "python3 (pid 7)" of a process that is not of the job; empty: of the job.
using NameOfStranger = std::function<std::string(base::Pid)>;

// Adds a line of the helper that watches to the history. Returns the readings of a line with clocks;
// `seconds` is the time since the one before.
std::vector<model::GpuClockReading> add_line(model::GpuHealth& health, std::string_view line, int64_t wall_ns,
                                             double seconds, const NameOfStranger& name_of_stranger = {});

// The lines of the helper that watches, reading by reading.
class WatchLines {
 public:
  // Without `counts`, clocks only.
  WatchLines(GpuSpeeds speeds, std::optional<GpuCountReader> counts);
  // With `all`, and now and then without, the counters are read too.
  std::string next(bool all);

 private:
  static constexpr int kFastReadings = 6;  // half a minute

  GpuSpeeds speeds_;
  std::optional<GpuCountReader> counts_;
  FactsOfGpus facts_;
  model::GpuInventory told_;
  int fast_ = kFastReadings;
};

// These functions do not return.
[[noreturn]] void run_clock_helper(const std::vector<std::string>& words);
[[noreturn]] void run_watch_helper(const std::vector<std::string>& words);

}  // namespace xpurun::launcher
