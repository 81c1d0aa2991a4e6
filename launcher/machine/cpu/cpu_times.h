// The CPU time of processes on each CPU over a short time, however it was measured.
#pragma once

#include "common/base/ids.h"

#include <map>
#include <set>
#include <string>

namespace xpurun::launcher {

struct CpuTimes {
  // Of a process that has ended since.
  struct Seen {
    std::string command;
    base::Pid parent = 0;
  };
  std::map<base::Pid, std::map<int, double>> seconds;  // by process and CPU
  std::map<base::Pid, Seen> seen;

  double on(base::Pid pid, const std::set<int>& cpus) const {
    double out = 0;
    const auto it = seconds.find(pid);
    if (it != seconds.end()) {
      for (const auto& [cpu, s] : it->second) {
        out += cpus.count(cpu) > 0 ? s : 0;
      }
    }
    return out;
  }
};

}  // namespace xpurun::launcher
