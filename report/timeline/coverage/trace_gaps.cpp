#include "report/timeline/coverage/trace_gaps.h"

#include "common/base/strings.h"
#include "common/model/run_dir.h"
#include "common/model/run_manifest.h"
#include "common/model/speed/trace_manifest.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>

namespace xpurun::report {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kComplete = "complete";

// The ranks of this node's run.
model::RankSet ranks_of_run(const fs::path& run_dir) {
  model::RankSet out;
  if (const auto run = model::load_run_manifest(model::RunDir(run_dir.string()).run_json())) {
    for (const model::ProcessRecord& process : run->processes) {
      if (process.rank != base::kNoRank) {
        out.insert(process.rank);
      }
    }
  }
  return out;
}

std::string words_of(const model::RankSet& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", ranks.text());
}

}  // namespace

std::vector<std::string> trace_gaps(const std::vector<std::string>& manifests, const model::RankSet& ranks) {
  std::vector<std::string> out;
  for (const std::string& path : manifests) {
    const fs::path dir = fs::absolute(path).parent_path();
    const std::string name = base::sanitize((dir.parent_path().filename() / dir.filename()).string());
    const auto trace = model::load_trace_manifest(path);
    if (!trace) {
      out.push_back(base::to_line(trace.error()));
      continue;
    }
    if (trace->ended != kComplete) {
      out.push_back(fmt::format("{} ended by: {}", name, base::sanitize(trace->ended)));
    }
    model::RankSet named;
    std::map<std::string, model::RankSet> problems;
    for (const model::TraceManifest::Rank& rank : trace->ranks) {
      named.insert(rank.rank);
      if (!rank.problem.empty() && (ranks.empty() || ranks.contains(rank.rank))) {
        problems[base::sanitize(rank.problem)].insert(rank.rank);
      }
    }
    for (const auto& [problem, of_ranks] : problems) {
      out.push_back(fmt::format("{}: {}: {}", name, words_of(of_ranks), problem));
    }
    model::RankSet untimed;
    for (const base::Rank rank : ranks_of_run(dir.parent_path().parent_path()).ranks()) {
      if (!named.contains(rank) && (ranks.empty() || ranks.contains(rank))) {
        untimed.insert(rank);
      }
    }
    if (!untimed.empty()) {
      out.push_back(fmt::format("{}: {}: not in the trace: without timing, or not running, when it began",
                                name, words_of(untimed)));
    }
  }
  return out;
}

}  // namespace xpurun::report
