#include "common/model/evidence/gpu_health.h"

#include "common/base/clock.h"
#include "common/model/json_visitors.h"

#include <algorithm>
#include <cmath>

namespace xpurun::model {

namespace {

constexpr double kWindowS = 30;
constexpr size_t kMostWindows = 512;     // of a GPU
constexpr double kNeighbourSlackS = 12;  // two readings

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

void add_neighbours(std::vector<GpuNeighbour>& known, const std::vector<std::string>& names,
                    int64_t wall_ns) {
  for (const std::string& name : names) {
    const auto it =
        std::find_if(known.begin(), known.end(), [&](const GpuNeighbour& n) { return n.name == name; });
    if (it != known.end()) {
      it->last_wall_ns = wall_ns;
    } else if (known.size() < kMostNeighbours) {
      known.push_back({.name = name, .first_wall_ns = wall_ns, .last_wall_ns = wall_ns});
    }
  }
}

std::string neighbour_in(const GpuHistory& gpu, int64_t from_wall_ns, int64_t until_wall_ns) {
  const int64_t slack = base::s_to_ns(kNeighbourSlackS);
  const int64_t end =
      gpu.windows.empty() ? until_wall_ns : std::min(until_wall_ns, gpu.windows.back().end_wall_ns);
  for (const GpuNeighbour& n : gpu.neighbours) {
    if (n.first_wall_ns <= from_wall_ns + slack && n.last_wall_ns >= end - slack) {
      return n.name;
    }
  }
  return {};
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
      gpu = gpus.insert(gpus.end(), {.uuid = one.uuid, .windows = {}, .neighbours = {}});
    }
    add_neighbours(gpu->neighbours, one.neighbours, wall_ns);
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
    std::string neighbour = neighbour_in(gpu, from_wall_ns, until_wall_ns);
    if (sum.samples > 0 || !neighbour.empty()) {
      out.push_back(clocks_of(gpu.uuid, sum));
      out.back().neighbour = std::move(neighbour);
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

template <typename V, Self<GpuNeighbour> N>
void fields(V& visit, N& n) {
  visit("name", n.name);
  visit("first_wall_ns", n.first_wall_ns);
  visit("last_wall_ns", n.last_wall_ns);
}

template <typename V, Self<GpuHistory> H>
void fields(V& visit, H& h) {
  visit("uuid", h.uuid);
  visit("windows", h.windows);
  visit("neighbours", h.neighbours, WhenEmpty::omit);
}

template <typename V, Self<GpuHealth> H>
void fields(V& visit, H& h) {
  visit("gpus", h.gpus);
}

base::Rank rank_on(const std::vector<RankPlace>& places, std::string_view pci) {
  base::Rank out = base::kNoRank;
  for (const RankPlace& place : places) {
    if (!pci.empty() && place.gpu == pci) {
      if (out != base::kNoRank) {
        return base::kNoRank;
      }
      out = place.rank;
    }
  }
  return out;
}

void add_gpu_facts(MachineHistory& host, const GpuHealth& gpus) {
  const auto unit_at = [&](int index, std::string_view pci) -> const GpuUnit* {
    for (const GpuUnit& unit : gpus.inventory.units) {
      if (index >= 0 ? unit.index == index : !pci.empty() && unit.pci == pci) {
        return &unit;
      }
    }
    return nullptr;
  };
  for (MachineSeries& s : host.series) {
    const std::string_view object = s.object;
    const GpuUnit* unit =
        object.ends_with(" (GPU)") ? unit_at(-1, object.substr(0, object.find(' '))) : nullptr;
    if (unit != nullptr) {
      s.rank = rank_on(host.places, unit->pci);
      s.object = gpu_object(unit->index);
    }
  }
  host.use.join(gpus.counted.use);
  const size_t own = host.series.size();
  for (MachineSeries s : gpus.counted.series) {
    // The same lanes by two sources.
    const bool doubled =
        std::any_of(host.series.begin(), host.series.begin() + static_cast<std::ptrdiff_t>(own),
                    [&](const MachineSeries& known) {
                      return known.fact == s.fact && known.object == s.object && !known.spells.empty();
                    });
    if (doubled) {
      continue;
    }
    const GpuUnit* unit = unit_at(gpu_index_of(s.object), {});
    s.rank = unit == nullptr ? base::kNoRank : rank_on(host.places, unit->pci);
    host.series.push_back(std::move(s));
  }
}

nlohmann::ordered_json to_json(const GpuHealth& health) {
  nlohmann::ordered_json out = write_object(kGpuHealthSchema, health);
  if (!health.inventory.units.empty()) {
    out["inventory"] = to_json(health.inventory);
  }
  if (!health.counted.empty()) {
    out["counted"] = to_json(health.counted);
  }
  return out;
}

base::Result<GpuHealth> gpu_health_from_json(const nlohmann::json& j) {
  XPURUN_TRY_ASSIGN(GpuHealth out, read_object<GpuHealth>(kGpuHealthSchema, "history of GPUs", j));
  if (const auto found = j.find("inventory"); found != j.end()) {
    XPURUN_TRY_ASSIGN(out.inventory, gpu_inventory_from_json(*found));
  }
  if (const auto found = j.find("counted"); found != j.end()) {
    XPURUN_TRY_ASSIGN(out.counted, machine_history_from_json(*found));
  }
  return out;
}

base::Result<GpuHealth> load_gpu_health(const std::string& path) {
  return load_object(path, gpu_health_from_json);
}

}  // namespace xpurun::model
