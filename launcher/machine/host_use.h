// HostUseReader: how much of its CPUs, memory, disks and links the host uses, between two readings.
#pragma once

#include "common/base/clock.h"
#include "launcher/machine/host/host_files.h"

#include <map>
#include <string>
#include <utility>

namespace xpurun::launcher {

class HostUseReader {
 public:
  // Rates begin with the second reading. Not thread-safe.
  void read(const HostFiles& host, base::MonoNs now, model::MachineReading& out);

 private:
  // Adds the rate of a counter since the reading before.
  void put(model::HostUse use, const std::string& object, double counter, model::MachineReading& out);

  std::map<std::pair<model::HostUse, std::string>, double> counters_;
  std::map<std::pair<model::HostUse, std::string>, double> now_;
  double seconds_ = 0;  // since the reading before; 0: there was none
  base::MonoNs at_ = 0;
};

}  // namespace xpurun::launcher
