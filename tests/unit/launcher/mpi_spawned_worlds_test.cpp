// Ranks of MPI_Comm_spawn in the numbering of the job.
#include "launcher/mpi/spawned_worlds.h"

#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <string>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

Identity entered(MpiWorlds& worlds, const std::string& name, const std::string& parent, int rank, int size) {
  std::map<std::string, std::string> environment{{"PMIX_NAMESPACE", name}};
  if (!parent.empty()) {
    environment["OMPI_PARENT_PORT"] = parent + ".0:2078790454";
  }
  Identity out{.kind = IdentityKind::openmpi, .rank = rank, .local_rank = rank, .world_size = size};
  worlds.enter(environment, out);
  return out;
}

// Two parents, and two spawns of two ranks each.
MpiWorlds family() {
  MpiWorlds out;
  entered(out, "100", "", 0, 2);
  entered(out, "101", "100", 0, 2);
  entered(out, "102", "100", 1, 2);
  return out;
}

model::Communicator placed(int own, uint32_t flags, uint32_t made, std::vector<base::Rank> members) {
  const auto comm = std::make_unique<wire::MpiComm>();
  comm->flags = flags;
  comm->made = made;
  model::Communicator out{.id = "12", .members = std::move(members)};
  place_in_job(*comm, {.all = family().all(), .own = own}, out);
  return out;
}

constexpr int kOther = -32766;  // MPI_UNDEFINED
constexpr uint32_t kBoth = wire::kMpiCommForeign | wire::kMpiCommInter;

}  // namespace

TEST_CASE("ranks of later worlds follow those of earlier ones") {
  MpiWorlds worlds;
  CHECK(entered(worlds, "100", "", 1, 2).rank == 1);
  CHECK(entered(worlds, "101", "100", 0, 3).rank == 2);
  CHECK(entered(worlds, "101", "100", 2, 3).world_size == 5);
  CHECK(entered(worlds, "102", "101", 0, 1).rank == 5);
  CHECK(entered(worlds, "100", "", 0, 2).rank == 0);
  // A second job of the same launcher, which nobody has spawned.
  CHECK(entered(worlds, "200", "", 1, 2).rank == 1);
  Identity other{.kind = IdentityKind::torchrun, .rank = 1, .world_size = 2};
  CHECK(worlds.enter({{"PMIX_NAMESPACE", "101"}}, other) == -1);
  CHECK(other.rank == 1);
}

TEST_CASE("parents and children see the same ranks and the same id") {
  const model::Communicator parents = placed(0, kBoth, 2, {0, 1, kOther, kOther});
  const model::Communicator children = placed(2, kBoth, 1, {0, 1, kOther, kOther});
  CHECK(parents.members == std::vector<base::Rank>{0, 1, 4, 5});  // the second spawn
  CHECK(children.members == std::vector<base::Rank>{4, 5, 0, 1});
  CHECK((parents.comparable && children.comparable && parents.id == children.id));
  const model::Communicator merged = placed(2, wire::kMpiCommForeign, 1, {kOther, kOther, 0, 1});
  CHECK(merged.members == std::vector<base::Rank>{0, 1, 4, 5});
  CHECK(merged.id != parents.id);
}

TEST_CASE("a communicator of one world keeps its ranks, with those of the job; others are not compared") {
  CHECK(placed(0, 0, 1, {0, 1}).id == "12");
  const model::Communicator later = placed(1, 0, 1, {1, 0});
  CHECK((later.members == std::vector<base::Rank>{3, 2} && later.id == "12@2"));
  CHECK_FALSE(placed(0, kBoth, 3, {0, 1, kOther, kOther}).comparable);  // nobody knows a third spawn
  CHECK_FALSE(placed(-1, kBoth, 1, {0, kOther}).comparable);
}
