// Communicators of which ranks belong to another MPI_COMM_WORLD (MPI_Comm_spawn): one numbering for all.
// Pure.
#pragma once

#include "common/model/collectives.h"
#include "common/wire/mpi_segment.h"
#include "launcher/processes/mpi_worlds.h"

#include <vector>

namespace xpurun::launcher {

// The worlds of the job, and that of the process.
struct WorldsOfRank {
  std::vector<MpiWorld> all;
  int own = -1;        // index; -1: the process belongs to no known world
  bool ended = false;  // the process, so that no stack has the place of the call that it was in
};

// Changes ranks of MPI_COMM_WORLD in `out.members` to ranks of the job, and the id to that on all ranks. A
// communicator whose other ranks are not known is not comparable.
void place_in_job(const wire::MpiComm& comm, const WorldsOfRank& worlds, model::Communicator& out);

}  // namespace xpurun::launcher
