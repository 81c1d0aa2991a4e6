#include "launcher/processes/mpi_worlds.h"

#include <algorithm>

namespace xpurun::launcher {

namespace {

std::string value_of(const std::map<std::string, std::string>& environment, const char* name) {
  const auto it = environment.find(name);
  return it == environment.end() ? "" : it->second;
}

}  // namespace

int MpiWorlds::enter(const std::map<std::string, std::string>& environment, Identity& identity) {
  const std::string name = value_of(environment, "PMIX_NAMESPACE");
  // "681115649.0:2078790454": the world and the rank of the process that has spawned this one.
  const std::string port = value_of(environment, "OMPI_PARENT_PORT");
  const std::string parent = port.substr(0, port.find('.'));
  if (name.empty() || identity.kind != IdentityKind::openmpi || identity.world_size <= 0) {
    return -1;
  }
  auto world =
      std::find_if(worlds_.begin(), worlds_.end(), [&](const MpiWorld& w) { return w.name == name; });
  if (world == worlds_.end()) {
    int base = 0;
    for (const MpiWorld& w : worlds_) {
      base = std::max(base, parent.empty() ? 0 : w.base + w.size);
    }
    worlds_.push_back({.name = name, .parent = parent, .base = base, .size = identity.world_size});
    world = worlds_.end() - 1;
  }
  identity.rank += world->base;
  identity.world_size += world->base;
  return static_cast<int>(world - worlds_.begin());
}

}  // namespace xpurun::launcher
