#include "report/speed/ranks/slow_rule.h"

#include <algorithm>

namespace xpurun::report {

namespace {

// Where all ranks lose less of each step, other load of the machine explains that.
constexpr double kLeastLostS = 1e-3;
// Of the time of the run, by slow steps that are over.
constexpr double kLeastOfRun = 0.01;

}  // namespace

bool is_costly(const model::SpeedFinding& f) {
  return f.severity == model::SpeedSeverity::warning && f.confidence >= model::Confidence::medium &&
         f.share >= kSlowShare;
}

bool makes_slow(const model::SpeedFinding& f) {
  return is_costly(f) && f.problem != model::SpeedProblem::cause && f.until < 0 &&
         (!f.ranks.empty() || f.lost_s >= kLeastLostS);
}

bool made_slow(const model::SpeedFinding& f, double elapsed_s) {
  return is_costly(f) && f.until >= 0 && lost_in_all(f) >= kLeastOfRun * elapsed_s;
}

const model::SpeedFinding* slowest(const std::vector<model::SpeedFinding>& findings, double elapsed_s) {
  const auto now = std::find_if(findings.begin(), findings.end(), makes_slow);
  const model::SpeedFinding* over = nullptr;
  for (const model::SpeedFinding& f : findings) {
    over = made_slow(f, elapsed_s) && (over == nullptr || lost_in_all(f) > lost_in_all(*over)) ? &f : over;
  }
  if (now == findings.end()) {
    return over;
  }
  // A rank that cost more in some steps is more to the point than what all ranks share until the end.
  const bool more = over != nullptr && !over->ranks.empty() && now->ranks.empty() &&
                    lost_in_all(*over) > now->share * elapsed_s;
  return more ? over : &*now;
}

double lost_in_all(const model::SpeedFinding& spell) {
  return spell.lost_s * static_cast<double>(spell.until - spell.since);
}

}  // namespace xpurun::report
