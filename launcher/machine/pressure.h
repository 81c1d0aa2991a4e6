// What the ranks and others take of the host's CPUs, memory and disks: pressure, interrupts, stolen time,
// limits of the frequency.
#pragma once

#include "launcher/machine/host/host_files.h"

#include <map>
#include <vector>

namespace xpurun::launcher {

// Of the control group of this process, and of the host.
void read_pressure(const HostFiles& host, base::Pid pid, model::MachineReading& out);
// The time that CPUs spend in interrupts, with the interrupt that has come most often since the last reading,
// and the time that the hypervisor took.
class InterruptReader {
 public:
  // `cpus`: those that ranks may use; empty: all.
  void read(const HostFiles& host, const std::vector<int>& cpus, model::MachineReading& out);

 private:
  // Counts of one line of /proc/interrupts, by its name.
  std::map<std::string, uint64_t> counts_;
};

// Limits of the frequency and throttling by heat.
void read_frequency(const HostFiles& host, const std::vector<int>& cpus, model::MachineReading& out);

}  // namespace xpurun::launcher
