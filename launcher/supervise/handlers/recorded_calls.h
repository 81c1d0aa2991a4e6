// RecordedCalls: the calls of the ranks so far, from NCCL's ledger, torch.distributed and MPI.
// Event loop's thread only.
#pragma once

#include "common/model/collectives.h"
#include "launcher/processes/process_table.h"
#include "launcher/storage/storage.h"

#include <functional>
#include <string>

namespace xpurun::launcher {

class RecordedCalls {
 public:
  struct Parts {
    const ProcessTable& table;
    Storage& storage;
  };
  struct Sources {
    std::function<model::CollectiveFacts()> nccl;
    std::function<void(model::CollectiveFacts&)> add_torch;
    std::function<void(model::CollectiveFacts&)> add_mpi;
    std::function<uint64_t(base::Rank)> steps;  // that the rank has ended
  };

  RecordedCalls(Parts parts, Sources sources) : parts_(parts), sources_(std::move(sources)) {}

  // Without the calls of processes that a later process has replaced as the same rank.
  model::CollectiveFacts all() const;
  // Writes all() to the file `path` of the run directory, unless there are no calls. Returns all().
  model::CollectiveFacts save(const std::string& path) const;

 private:
  Parts parts_;
  Sources sources_;
};

}  // namespace xpurun::launcher
