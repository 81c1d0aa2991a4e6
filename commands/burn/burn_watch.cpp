#include "commands/burn/burn_watch.h"

#include "commands/burn/gpu_health.h"
#include "common/base/clock.h"
#include "common/base/strings.h"

#include <algorithm>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

// In a container, the driver's numbers of processes may be those of the host.
void add_other_processes(const model::GpuDevice& device, BurnedGpu& to) {
  bool found_own = false;
  for (const model::GpuProcess& process : device.processes) {
    if (process.pid == ::getpid()) {
      found_own = true;
    } else {
      to.other_pids.push_back(process.pid);
    }
  }
  to.is_shared = device.processes.size() > 1;
  if (!found_own) {
    to.other_pids.clear();
  }
}

}  // namespace

BurnWatch::BurnWatch(const std::string& library) {
  if (auto speeds = GpuSpeeds::open(library)) {
    speeds_.emplace(std::move(*speeds));
  }
  auto lines = GpuSpeeds::open(library);
  auto counts = GpuCountReader::open(library);
  if (lines && counts) {
    lines_.emplace(std::move(*lines), std::move(*counts));
  }
  look();
}

void BurnWatch::sample() {
  if (speeds_) {
    newest_ = speeds_->read(true);
    summary_.add(newest_);
  }
}

void BurnWatch::look() {
  if (lines_) {
    const std::string text = lines_->next(true);
    for (const std::string_view line : base::split(text, '\n')) {
      add_line(health_, line, base::wall_ns(), kWatchIntervalS);
    }
  }
}

void BurnWatch::finish(Burn& burn) {
  look();
  const auto clocks = summary_.clocks();
  for (BurnedGpu& gpu : burn.gpus) {
    for (const model::GpuUnit& unit : health_.inventory.units) {
      if (unit.uuid == gpu.unit.uuid || (!unit.pci.empty() && unit.pci == gpu.unit.pci)) {
        const std::string name = gpu.unit.name;
        gpu.unit = unit;
        gpu.unit.name = name;
      }
    }
    for (const model::GpuClocks& c : clocks) {
      if (c.uuid == gpu.unit.uuid) {
        gpu.clocks = c;
      }
    }
    for (const model::GpuDevice& d : newest_) {
      if (d.uuid == gpu.unit.uuid) {
        gpu.memory_clock_mhz = d.memory_clock_mhz;
        add_other_processes(d, gpu);
      }
    }
  }
  burn.found = findings_of(health_);
}

}  // namespace xpurun::launcher
