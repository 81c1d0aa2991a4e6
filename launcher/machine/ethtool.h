// The counters that the driver of a network adapter keeps, which `ethtool -S` shows: pauses that a switch
// asks for (RoCE's flow control), packets that found no room, losses of the link. No privilege is needed. A
// call may block in a broken driver: helper processes only.
#pragma once

#include "common/model/evidence/machine.h"

#include <cstdint>
#include <string>
#include <vector>

namespace xpurun::launcher {

struct AdapterCounter {
  std::string name;
  uint64_t value = 0;
};

// All counters of an interface; empty if the driver has none.
std::vector<AdapterCounter> adapter_counters(const std::string& interface);

// The counters that say something about the link, by the names of the drivers mlx5 and bnxt_en. Pure.
void add_adapter_counters(const std::vector<AdapterCounter>& counters, const std::string& object,
                          model::MachineReading& out);

}  // namespace xpurun::launcher
