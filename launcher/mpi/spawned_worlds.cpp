#include "launcher/mpi/spawned_worlds.h"

#include "common/base/hash.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::launcher {

namespace {

// The world that the foreign members of this process's communicator belong to: that of its parents, or the
// one that was spawned by the communicator's number.
const MpiWorld* other_world(const wire::MpiComm& comm, const WorldsOfRank& worlds, size_t foreign) {
  const MpiWorld& own = worlds.all[static_cast<size_t>(worlds.own)];
  uint32_t number = comm.made.load();
  const MpiWorld* parent = nullptr;
  for (const MpiWorld& w : worlds.all) {
    parent = !own.parent.empty() && w.name == own.parent ? &w : parent;
    const bool fits = w.parent == own.name && static_cast<size_t>(w.size) == foreign;
    if (fits && number-- == 1) {
      return &w;
    }
  }
  return parent != nullptr && static_cast<size_t>(parent->size) == foreign ? parent : nullptr;
}

}  // namespace

void place_in_job(const wire::MpiComm& comm, const WorldsOfRank& worlds, model::Communicator& out) {
  const bool foreign = (comm.flags.load() & wire::kMpiCommForeign) != 0;
  const bool known = worlds.own >= 0 && static_cast<size_t>(worlds.own) < worlds.all.size();
  const int base = known ? worlds.all[static_cast<size_t>(worlds.own)].base : 0;
  if (!foreign) {
    for (base::Rank& member : out.members) {
      member += base;
    }
    out.id += base > 0 ? fmt::format("@{}", base) : "";
    return;
  }
  const auto others =
      static_cast<size_t>(std::count_if(out.members.begin(), out.members.end(), [](int m) { return m < 0; }));
  const MpiWorld* other = known && others > 0 ? other_world(comm, worlds, others) : nullptr;
  out.comparable = out.comparable && other != nullptr;
  if (other == nullptr) {
    out.members.clear();
    return;
  }
  int next = other->base;
  uint64_t id = 0;
  for (base::Rank& member : out.members) {
    member = member < 0 ? next++ : member + base;
    id += base::hash_words(0, {static_cast<uint64_t>(member)});  // in any order
  }
  // A merged communicator has the ranks of the intercommunicator.
  const bool inter = (comm.flags.load() & wire::kMpiCommInter) != 0;
  out.id = fmt::format("{:016x}", base::hash_words(id, {inter ? 1u : 0u}));
}

}  // namespace xpurun::launcher
