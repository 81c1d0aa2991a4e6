// KnownDumps: the manifests of the latest dumps and the calls recorded at them, kept in memory, and the
// verdict from them for the case that the run directory is not writable or readable. Without stacks: only the
// supervisor's own observations.
#pragma once

#include "common/model/collectives.h"
#include "common/model/dump_manifest.h"
#include "common/model/run_manifest.h"

#include <deque>
#include <string>

namespace xpurun::launcher {

class KnownDumps {
 public:
  // `dir` is relative to the run directory. Drops the oldest dump when there are many.
  void keep(const std::string& dir, model::DumpManifest manifest, model::CollectiveFacts calls = {});
  // Null if unknown or already dropped.
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
