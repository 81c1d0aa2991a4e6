// KnownDumps: the manifests of the latest dumps, kept in memory, and the verdict that follows from them when
// the run directory cannot be written or read. No stacks: only what the supervisor has seen itself.
#pragma once

#include "common/model/dump_manifest.h"
#include "common/model/run_manifest.h"

#include <deque>
#include <string>
#include <utility>

namespace xpurun::launcher {

class KnownDumps {
 public:
  // `dir` is relative to the run directory. The oldest is forgotten when there are many.
  void keep(const std::string& dir, model::DumpManifest manifest);
  // Null if it is not known (any more).
  model::DumpManifest* find(const std::string& dir);

  model::Verdict diagnose(const model::RunManifest& run);

 private:
  std::deque<std::pair<std::string, model::DumpManifest>> dumps_;
};

}  // namespace xpurun::launcher
