#include "launcher/dumps/known_dumps.h"

#include "report/diagnosis/diagnose.h"

#include <algorithm>

namespace xpurun::launcher {

namespace {
constexpr size_t kMost = 8;
}

void KnownDumps::keep(const std::string& dir, model::DumpManifest manifest, model::CollectiveFacts calls) {
  std::erase_if(dumps_, [&](const Known& d) { return d.dir == dir; });
  dumps_.push_back({dir, std::move(manifest), std::move(calls)});
  if (dumps_.size() > kMost) {
    dumps_.pop_front();
  }
}

KnownDumps::Known* KnownDumps::known(const std::string& dir) {
  const auto it = std::find_if(dumps_.begin(), dumps_.end(), [&](const Known& d) { return d.dir == dir; });
  return it == dumps_.end() ? nullptr : &*it;
}

model::DumpManifest* KnownDumps::find(const std::string& dir) {
  Known* found = known(dir);
  return found == nullptr ? nullptr : &found->manifest;
}

model::Verdict KnownDumps::diagnose(const model::RunManifest& run) {
  report::Facts facts{.run = run};
  const std::string dir = report::dump_that_matters(run);
  if (const Known* found = dir.empty() ? nullptr : known(dir)) {
    facts.dump = found->manifest;
    facts.collectives = found->calls;
    facts.dump_dir = dir;
  }
  return report::diagnose(facts);
}

}  // namespace xpurun::launcher
