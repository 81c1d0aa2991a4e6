// A launcher that has not started a rank yet counts as the rank.
#pragma once

#include "common/model/run_manifest.h"
#include "launcher/processes/identity.h"

namespace xpurun::launcher {

// A process that ends before it has started a rank was no launcher. False if `record` is another process.
inline bool becomes_launcher(model::ProcessRecord& record) {
  if (!starts_ranks(record.cmdline)) {
    return false;
  }
  record.role = model::ProcessRole::agent;
  record.rank = base::kNoRank;
  record.local_rank = -1;
  record.identity = model::RankSource::none;
  return true;
}

}  // namespace xpurun::launcher
