#include "launcher/evidence/clock_helper.h"

#include "common/base/clock.h"
#include "common/base/os/io.h"
#include "common/base/output/terminal.h"
#include "common/base/strings.h"
#include "common/model/json/json_text.h"
#include "common/model/json_fields.h"
#include "launcher/evidence/nvml.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <poll.h>
#include <sys/prctl.h>
#include <thread>
#include <unistd.h>

namespace xpurun::launcher {

using model::GpuClocks;
using model::GpuDevice;

namespace {

constexpr std::chrono::milliseconds kInterval{10};

double middle(std::vector<double> values) {
  if (values.empty()) {
    return -1;
  }
  const auto at = values.begin() + static_cast<long>(values.size() / 2);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

void keep(std::vector<double>& values, double value) {
  if (value >= 0) {
    values.push_back(value);
  }
}

int rounded(double value) {
  return static_cast<int>(std::lround(value));
}

}  // namespace

std::vector<std::string> clock_words(double seconds, const std::string& out) {
  return {std::string(kClockRole), fmt::format("{}ms", std::lround(seconds * 1000)), out};
}

void ClockSummary::add(const std::vector<GpuDevice>& gpus) {
  gpus_.resize(std::max(gpus_.size(), gpus.size()));
  for (size_t i = 0; i < gpus.size(); ++i) {
    const GpuDevice& d = gpus[i];
    Gpu& gpu = gpus_[i];
    gpu.newest = d;
    ++gpu.samples;
    keep(gpu.clocks, d.sm_clock_mhz);
    keep(gpu.power, d.power_w);
    keep(gpu.utilization, d.utilization_percent);
    gpu.temperature = std::max(gpu.temperature, d.temperature_c);
    for (const model::ThrottleReason reason : d.throttle_reasons) {
      ++gpu.reasons[static_cast<size_t>(reason)];
    }
  }
}

std::vector<GpuClocks> ClockSummary::clocks() const {
  std::vector<GpuClocks> out;
  for (const Gpu& gpu : gpus_) {
    GpuClocks c{.uuid = gpu.newest.uuid, .samples = gpu.samples};
    if (!gpu.clocks.empty()) {
      c.sm_lowest_mhz = rounded(*std::min_element(gpu.clocks.begin(), gpu.clocks.end()));
    }
    c.sm_median_mhz = rounded(middle(gpu.clocks));
    c.sm_limit_mhz = gpu.newest.sm_clock_max_mhz;
    c.power_w = middle(gpu.power);
    c.power_limit_w = gpu.newest.power_limit_w;
    c.temperature_c = gpu.temperature;
    c.utilization_percent = rounded(middle(gpu.utilization));
    for (size_t i = 0; i < std::size(gpu.reasons); ++i) {
      if (gpu.reasons[i] > 0) {
        c.throttled.push_back({static_cast<model::ThrottleReason>(i),
                               static_cast<double>(gpu.reasons[i]) / static_cast<double>(gpu.samples)});
      }
    }
    out.push_back(std::move(c));
  }
  return out;
}

model::ClockSamples sample_clocks(double seconds, const std::string& library) {
  model::ClockSamples out;
  auto gpus = GpuSpeeds::open(library);
  if (!gpus) {
    out.reason = base::to_line(gpus.error());
    return out;
  }
  ClockSummary summary;
  const auto begin = std::chrono::steady_clock::now();
  const auto end =
      begin + std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
  uint64_t count = 0;
  for (auto next = begin; next < end; next = std::max(next + kInterval, std::chrono::steady_clock::now())) {
    std::this_thread::sleep_until(next);
    summary.add(gpus->read());
    ++count;
  }
  out.interval_s = count == 0 ? 0 : seconds / static_cast<double>(count);
  out.gpus = summary.clocks();
  return out;
}

void run_clock_helper(const std::vector<std::string>& words) {
  // After the supervisor was killed, no process reads the result.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto seconds = words.size() == 3 ? base::parse_duration_s(words[1]) : std::nullopt;
  if (!seconds) {
    ::_exit(2);
  }
  const auto samples = sample_clocks(*seconds, std::string(kNvmlLibrary));
  const auto written = base::write_file_atomic(words[2], model::json_text(to_json(samples), 1) + "\n");
  ::_exit(written ? 0 : 1);
}

std::vector<std::string> watch_words(double interval_s) {
  return {std::string(kWatchRole), fmt::format("{}ms", std::lround(interval_s * 1000))};
}

std::string watched_line(const std::vector<GpuDevice>& gpus) {
  auto list = nlohmann::ordered_json::array();
  for (const GpuDevice& gpu : gpus) {
    auto reasons = nlohmann::ordered_json::array();
    for (const model::ThrottleReason reason : gpu.throttle_reasons) {
      reasons.push_back(std::string(name_of(reason)));
    }
    auto pids = nlohmann::ordered_json::array();
    auto loads = nlohmann::ordered_json::array();
    for (const model::GpuProcess& process : gpu.processes) {
      pids.push_back(process.pid);
      loads.push_back(process.sm_percent);
    }
    list.push_back({{"uuid", gpu.uuid},
                    {"mhz", gpu.sm_clock_mhz},
                    {"reasons", std::move(reasons)},
                    {"pids", std::move(pids)},
                    {"loads", std::move(loads)}});
  }
  return model::json_text(list) + "\n";
}

std::vector<model::UseValue> gpu_use(const std::vector<GpuDevice>& gpus) {
  std::vector<model::UseValue> out;
  for (const GpuDevice& gpu : gpus) {
    const auto put = [&](model::HostUse use, double value) {
      if (value >= 0) {
        out.push_back({.use = use, .object = model::gpu_object(gpu.index), .value = value});
      }
    };
    put(model::HostUse::gpu_load, gpu.utilization_percent / 100.0);
    put(model::HostUse::gpu_clock, gpu.sm_clock_mhz);
    put(model::HostUse::gpu_temperature, gpu.temperature_c);
    put(model::HostUse::gpu_power, gpu.power_w);
  }
  return out;
}

std::vector<model::GpuClockReading> watched_gpus_from(std::string_view line) {
  std::vector<model::GpuClockReading> out;
  try {
    for (const nlohmann::json& one : model::parse_json(line)) {
      model::GpuClockReading reading{.uuid = one.at("uuid").get<std::string>(),
                                     .sm_mhz = one.at("mhz").get<int>()};
      for (const auto& name : one.at("reasons")) {
        if (const auto known = model::from_name<model::ThrottleReason>(name.get_ref<const std::string&>())) {
          reading.reasons.push_back(*known);
        }
      }
      reading.processes = one.at("pids").get<std::vector<base::Pid>>();
      reading.loads_percent = one.value("loads", std::vector<int>());
      out.push_back(std::move(reading));
    }
  } catch (const nlohmann::json::exception&) {
    return {};
  }
  return out;
}

namespace {

// The driver may number processes otherwise than this host does, unless a process of the job is among them.
void name_neighbours(std::vector<model::GpuClockReading>& gpus, const NameOfStranger& name_of_stranger) {
  constexpr int kLeastLoad = 5;
  const bool comparable = std::any_of(gpus.begin(), gpus.end(), [&](const model::GpuClockReading& gpu) {
    return std::any_of(gpu.processes.begin(), gpu.processes.end(),
                       [&](base::Pid pid) { return name_of_stranger(pid).empty(); });
  });
  for (model::GpuClockReading& gpu : gpus) {
    for (size_t i = 0; comparable && i < gpu.processes.size(); ++i) {
      // A program without load only has a context there.
      const bool computes = i < gpu.loads_percent.size() && gpu.loads_percent[i] >= kLeastLoad;
      std::string name = computes ? name_of_stranger(gpu.processes[i]) : "";
      if (!name.empty()) {
        gpu.neighbours.push_back(std::move(name));
      }
    }
  }
}

}  // namespace

std::vector<model::GpuClockReading> add_line(model::GpuHealth& health, std::string_view line, int64_t wall_ns,
                                             double seconds, const NameOfStranger& name_of_stranger) {
  if (line.starts_with('[')) {
    auto out = watched_gpus_from(line);
    if (name_of_stranger) {
      name_neighbours(out, name_of_stranger);
    }
    health.add(out, wall_ns, seconds);
    return out;
  }
  if (const auto reading = model::machine_reading_from(line)) {
    health.counted.add(*reading, wall_ns);
  } else if (auto inventory = model::gpu_inventory_from_json(model::parse_json(line))) {
    health.inventory = std::move(*inventory);
  }
  return {};
}

WatchLines::WatchLines(GpuSpeeds speeds, std::optional<GpuCountReader> counts)
    : speeds_(std::move(speeds)), counts_(std::move(counts)) {}

std::string WatchLines::next(bool all) {
  const std::vector<GpuDevice> gpus = speeds_.read(true);
  std::string out = watched_line(gpus);
  if (!counts_) {
    return out + model::line_of(model::MachineReading{.use = gpu_use(gpus)});
  }
  const bool full = all || fast_ >= kFastReadings;
  fast_ = full ? 1 : fast_ + 1;
  model::MachineReading reading = facts_.add(counts_->read(full));
  reading.use = gpu_use(gpus);
  out += model::line_of(reading);
  if (full) {
    // The paths take many questions, and do not change.
    model::GpuInventory inventory = counts_->inventory(told_.units.empty());
    if (!told_.units.empty()) {
      inventory.paths = told_.paths;
    }
    if (inventory != told_) {
      out += model::json_text(to_json(inventory)) + "\n";
      told_ = std::move(inventory);
    }
  }
  return out;
}

void run_watch_helper(const std::vector<std::string>& words) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::signal(SIGPIPE, SIG_IGN);
  const auto seconds = words.size() == 2 ? base::parse_duration_s(words[1]) : std::nullopt;
  auto gpus = GpuSpeeds::open();
  if (!seconds || !gpus) {
    ::_exit(seconds ? 0 : 2);  // a host without NVML is no failure
  }
  auto counts = GpuCountReader::open(std::string(kNvmlLibrary));
  WatchLines lines(std::move(*gpus), counts ? std::optional(std::move(*counts)) : std::nullopt);
  bool all = true;
  for (bool ends = false; !ends;) {
    if (!base::put_out(lines.next(all))) {
      ::_exit(0);  // nobody reads
    }
    // A line on stdin asks for a full reading, its end for the last one.
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    all = ::poll(&input, 1, static_cast<int>(std::lround(*seconds * 1000))) > 0;
    char bytes[256];
    if (all && ::read(STDIN_FILENO, bytes, sizeof bytes) <= 0) {
      base::put_out(lines.next(true));
      ends = true;
    }
  }
  ::_exit(0);
}

}  // namespace xpurun::launcher
