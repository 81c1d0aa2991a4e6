// RecordedCalls: what the ranks have called so far, by NCCL's ledger and by torch.distributed. Event loop's
// thread only.
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
  };

  RecordedCalls(Parts parts, Sources sources) : parts_(parts), sources_(std::move(sources)) {}

  // Without those of processes that another process has replaced in their rank.
  model::CollectiveFacts all() const;
  // Writes all() to the file `path` of the run directory, if there are any, and returns them.
  model::CollectiveFacts save(const std::string& path) const;

 private:
  Parts parts_;
  Sources sources_;
};

}  // namespace xpurun::launcher
