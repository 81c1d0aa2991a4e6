#include "launcher/dumps/known_dumps.h"

#include "report/diagnosis/diagnose.h"

#include <algorithm>

namespace xpurun::launcher {

namespace {
constexpr size_t kMost = 8;
}

void KnownDumps::keep(const std::string& dir, model::DumpManifest manifest) {
  dumps_.emplace_back(dir, std::move(manifest));
  if (dumps_.size() > kMost) {
    dumps_.pop_front();
  }
}

model::DumpManifest* KnownDumps::find(const std::string& dir) {
  const auto it = std::find_if(dumps_.begin(), dumps_.end(), [&](const auto& d) { return d.first == dir; });
  return it == dumps_.end() ? nullptr : &it->second;
}

model::Verdict KnownDumps::diagnose(const model::RunManifest& run) {
  report::Facts facts{.run = run};
  const std::string dir = report::dump_that_matters(run);
  if (const model::DumpManifest* dump = dir.empty() ? nullptr : find(dir)) {
    facts.dump = *dump;
    facts.dump_dir = dir;
  }
  return report::diagnose(facts);
}

}  // namespace xpurun::launcher
