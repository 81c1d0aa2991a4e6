// MachineReader: one reading of everything that is counted about the host.
#pragma once

#include "launcher/machine/cpu/cpu_watch.h"
#include "launcher/machine/host/host_files.h"
#include "launcher/machine/host_use.h"
#include "launcher/machine/places.h"
#include "launcher/machine/pressure.h"
#include "launcher/machine/storage.h"

#include <string>
#include <unistd.h>
#include <vector>

namespace xpurun::launcher {

class MachineReader {
 public:
  // `run_dir`: absolute; its file system is one of those that may fill.
  explicit MachineReader(std::string run_dir, HostFiles host = HostFiles(), SpaceReader space = SpaceReader())
      : run_dir_(std::move(run_dir)),
        host_(std::move(host)),
        space_(std::move(space)),
        cpus_({.job = ::getppid()}) {}

  // Looks at who has the ranks' CPUs, if that is due; returns the time in ms until the next turn.
  int turn(const std::vector<WatchedRank>& ranks) { return cpus_.turn(host_.proc(), ranks, base::mono_ns()); }

  // What the ranks wait in at the moment; `seconds`: since the sample before.
  void sample(const std::vector<WatchedRank>& ranks, double seconds);
  // Takes two seconds at most longer than its files, where a file system does not answer.
  model::MachineReading read(const std::vector<WatchedRank>& ranks);

 private:
  std::string run_dir_;
  HostFiles host_;
  InterruptReader interrupts_;
  SpaceReader space_;
  StorageWaits waits_;
  CpuWatch cpus_;
  HostUseReader use_;
};

}  // namespace xpurun::launcher
