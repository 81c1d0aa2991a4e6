#include "report/timeline/counters/host_counters.h"

#include "common/base/strings.h"
#include "common/model/evidence/gpu_health.h"
#include "common/model/evidence/machine.h"
#include "report/events/op_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace xpurun::report {

namespace {

using model::HostUse;
using model::MachineFact;

constexpr size_t kMostFaults = 16;

struct UseName {
  std::string_view name;
  std::string_view unit;
  double scale = 1;
};

UseName name_of_use(HostUse use) {
  constexpr double kPercent = 100;
  constexpr double kMega = 1e-6;
  constexpr double kMebi = 1.0 / (1024 * 1024);
  switch (use) {
    case HostUse::cpu:
      return {"CPUs in use", "%", kPercent};
    case HostUse::memory:
      return {"memory in use", "%", kPercent};
    case HostUse::disk_read:
      return {"read", "MB/s", kMega};
    case HostUse::disk_written:
      return {"written", "MB/s", kMega};
    case HostUse::net_received:
    case HostUse::link_received:
      return {"received", "MB/s", kMega};
    case HostUse::net_sent:
    case HostUse::link_sent:
      return {"sent", "MB/s", kMega};
    case HostUse::gpu_load:
      return {"load", "%", kPercent};
    case HostUse::gpu_clock:
      return {"SM clock", "MHz"};
    case HostUse::gpu_temperature:
      return {"temperature", "°C"};
    case HostUse::gpu_power:
      return {"power", "W"};
    case HostUse::group_processes:
      return {"memory of processes", "MiB", kMebi};
    case HostUse::group_cache:
      return {"page cache", "MiB", kMebi};
    case HostUse::group_shared:
      break;
  }
  return {"shared memory", "MiB", kMebi};
}

void put(Counter& counter, double wall_ns, double value) {
  if (wall_ns >= 0 && wall_ns <= static_cast<double>(kLatestNs)) {
    counter.samples.push_back({static_cast<int64_t>(wall_ns), value});
  }
}

void add_use(Activity& activity, const model::HostUseHistory& use) {
  for (const model::UseTrack& track : use.tracks) {
    const UseName name = name_of_use(track.use);
    const std::string object = track.object.empty() ? "host" : base::sanitize(track.object);
    Counter& counter = activity.counter(fmt::format("{}: {}", object, name.name), name.unit);
    for (size_t i = 0; i < track.values.size(); ++i) {
      if (track.values[i] >= 0) {
        put(counter, static_cast<double>(use.begin_wall_ns) + static_cast<double>(i) * use.bin_s * 1e9,
            track.values[i] * name.scale);
      }
    }
  }
}

// Its counters have the rank's name already, or no limit.
bool is_left_out(MachineFact fact) {
  return fact == MachineFact::no_cpu || fact == MachineFact::throttled ||
         fact == MachineFact::rank_page_faults;
}

void add_faults(Activity& activity, const std::vector<model::MachineSeries>& all) {
  size_t shown = 0;
  for (const model::MachineSeries& s : all) {
    if (s.spells.empty() || is_left_out(s.fact) || shown++ == kMostFaults) {
      continue;
    }
    const bool events = unit_of(s.fact) == model::MachineUnit::events;
    std::string fact(model::name_of(s.fact));
    std::replace(fact.begin(), fact.end(), '_', ' ');
    const std::string name = fmt::format("{}: {}", base::sanitize(s.object), fact);
    Counter& counter = activity.counter(name, events ? "events" : "share");
    double sum = 0;
    for (const model::MachineSpell& spell : s.spells) {
      put(counter, static_cast<double>(spell.begin_wall_ns), events ? sum : spell.amount);
      sum += spell.amount;
      put(counter, static_cast<double>(spell.end_wall_ns), events ? sum : 0);
    }
  }
}

}  // namespace

void add_host_counters(Activity& activity, const std::string& run_dir) {
  const auto machine = model::load_machine_history(fmt::format("{}/{}", run_dir, model::kMachineFile));
  if (!machine || machine->places.empty() || machine->places.front().rank != activity.rank) {
    return;
  }
  add_use(activity, machine->use);
  add_faults(activity, machine->series);
  if (const auto gpus = model::load_gpu_health(fmt::format("{}/{}", run_dir, model::kGpuHealthFile))) {
    add_use(activity, gpus->counted.use);
    add_faults(activity, gpus->counted.series);
  }
}

}  // namespace xpurun::report
