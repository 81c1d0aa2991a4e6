#include "common/model/speed/gpu_health.h"

#include "common/base/clock.h"
#include "common/model/json_visitors.h"

#include <algorithm>
#include <cmath>

namespace xpurun::model {

namespace {

constexpr double kWindowS = 30;
constexpr size_t kMostWindows = 512;  // of a GPU

void join(GpuWindow& to, const GpuWindow& from) {
  to.end_wall_ns = from.end_wall_ns;
  to.samples += from.samples;
  to.clock_samples += from.clock_samples;
  to.sm_mhz_sum += from.sm_mhz_sum;
  for (const auto& [reason, samples] : from.reasons) {
    to.reasons[reason] += samples;
  }
}

GpuWindow window_of(const GpuClockReading& reading, int64_t begin_ns, int64_t end_ns) {
  GpuWindow out{.begin_wall_ns = begin_ns, .end_wall_ns = end_ns, .samples = 1};
  for (const ThrottleReason reason : reading.reasons) {
    out.reasons[reason] = 1;
  }
  if (reading.sm_mhz >= 0) {
    out.clock_samples = 1;
    out.sm_mhz_sum = reading.sm_mhz;
  }
  return out;
}

// Long enough that kMostWindows windows hold twice the time so far.
int64_t window_ns(const std::vector<GpuWindow>& windows) {
  if (windows.empty()) {
    return base::s_to_ns(kWindowS);
  }
  const auto all = windows.back().end_wall_ns - windows.front().begin_wall_ns;
  return std::max(base::s_to_ns(kWindowS), 2 * all / static_cast<int64_t>(kMostWindows));
}

void halve(std::vector<GpuWindow>& windows) {
  std::vector<GpuWindow> out;
  for (size_t i = 0; i < windows.size(); ++i) {
    if (i % 2 == 0) {
      out.push_back(windows[i]);
    } else {
      join(out.back(), windows[i]);
    }
  }
  windows = std::move(out);
}

GpuClocks clocks_of(const std::string& uuid, const GpuWindow& sum) {
  GpuClocks out{.uuid = uuid, .samples = sum.samples};
  if (sum.clock_samples > 0) {
    out.sm_median_mhz =
        static_cast<int>(std::lround(sum.sm_mhz_sum / static_cast<double>(sum.clock_samples)));
  }
  for (const auto& [reason, samples] : sum.reasons) {
    out.throttled.push_back({reason, static_cast<double>(samples) / static_cast<double>(sum.samples)});
  }
  return out;
}

}  // namespace

void GpuHealth::add(const std::vector<GpuClockReading>& readings, int64_t wall_ns, double seconds) {
  for (const GpuClockReading& one : readings) {
    auto gpu =
        std::find_if(gpus.begin(), gpus.end(), [&](const auto& known) { return known.uuid == one.uuid; });
    if (gpu == gpus.end()) {
      gpu = gpus.insert(gpus.end(), {.uuid = one.uuid, .windows = {}});
    }
    const GpuWindow reading = window_of(one, wall_ns - base::s_to_ns(seconds), wall_ns);
    std::vector<GpuWindow>& windows = gpu->windows;
    if (!windows.empty() && wall_ns - windows.back().begin_wall_ns <= window_ns(windows)) {
      join(windows.back(), reading);
      continue;
    }
    if (windows.size() >= kMostWindows) {
      halve(windows);
    }
    windows.push_back(reading);
  }
}

std::vector<GpuClocks> GpuHealth::clocks(int64_t from_wall_ns, int64_t until_wall_ns) const {
  std::vector<GpuClocks> out;
  for (const GpuHistory& gpu : gpus) {
    GpuWindow sum;
    for (const GpuWindow& window : gpu.windows) {
      if (window.begin_wall_ns >= from_wall_ns && window.end_wall_ns <= until_wall_ns) {
        join(sum, window);
      }
    }
    if (sum.samples > 0) {
      out.push_back(clocks_of(gpu.uuid, sum));
    }
  }
  return out;
}

template <typename V, Self<GpuWindow> W>
void fields(V& visit, W& w) {
  visit("begin_wall_ns", w.begin_wall_ns);
  visit("end_wall_ns", w.end_wall_ns);
  visit("samples", w.samples);
  visit("clock_samples", w.clock_samples);
  visit("sm_mhz_sum", w.sm_mhz_sum);
  visit("reasons", w.reasons);
}

template <typename V, Self<GpuHistory> H>
void fields(V& visit, H& h) {
  visit("uuid", h.uuid);
  visit("windows", h.windows);
}

template <typename V, Self<GpuHealth> H>
void fields(V& visit, H& h) {
  visit("gpus", h.gpus);
}

nlohmann::ordered_json to_json(const GpuHealth& health) {
  return write_object(kGpuHealthSchema, health);
}

base::Result<GpuHealth> gpu_health_from_json(const nlohmann::json& j) {
  return read_object<GpuHealth>(kGpuHealthSchema, "history of GPUs", j);
}

base::Result<GpuHealth> load_gpu_health(const std::string& path) {
  return load_object(path, gpu_health_from_json);
}

}  // namespace xpurun::model
