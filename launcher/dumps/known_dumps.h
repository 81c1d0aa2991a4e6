// KnownDumps: the manifests of the latest dumps and the calls recorded at them, kept in memory, and the
// verdict that follows from them when the run directory cannot be written or read. No stacks: only what the
// supervisor has seen itself.
#pragma once

#include "common/model/collectives.h"
#include "common/model/dump_manifest.h"
#include "common/model/run_manifest.h"

#include <deque>
#include <string>

namespace xpurun::launcher {

class KnownDumps {
 public:
  // `dir` is relative to the run directory. The oldest is forgotten when there are many.
  void keep(const std::string& dir, model::DumpManifest manifest, model::CollectiveFacts calls = {});
  // Null if it is not known (any more).
  model::DumpManifest* find(const std::string& dir);

  model::Verdict diagnose(const model::RunManifest& run);

 private:
  struct Known {
    std::string dir;
    model::DumpManifest manifest;
    model::CollectiveFacts calls;
  };
  Known* known(const std::string& dir);

  std::deque<Known> dumps_;
};

}  // namespace xpurun::launcher
