#include "report/diagnosis/diagnose.h"

#include "common/base/strings.h"

#include <fmt/format.h>

namespace xpurun::report {

model::Verdict diagnose(const Facts& facts) {
  model::Verdict v;
  if (facts.run.outcome == "exit" && facts.run.child_status == 0) {
    v.id = "none.finished";
    v.kind = "none";
    v.confidence = "high";
    v.sentence = fmt::format("none: finished normally in {}", base::human_duration(facts.run.elapsed_s));
    return v;
  }
  v.id = "running.unfinished";
  v.kind = "running";
  v.confidence = "low";
  v.sentence =
      fmt::format("running: for {} when this was written", base::human_duration(facts.run.elapsed_s));
  return v;
}

std::string dump_that_matters(const model::RunManifest& run) {
  return run.dumps.empty() ? std::string() : run.dumps.back().dir;
}

std::vector<std::string> verdict_lines(const model::Verdict& verdict, const model::RunManifest&) {
  std::vector<std::string> lines{verdict.sentence};
  for (const std::string& line : verdict.evidence) {
    if (lines.size() <= 10) {
      lines.push_back(line);
    }
  }
  return lines;
}

}  // namespace xpurun::report
