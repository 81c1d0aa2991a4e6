#include "report/diagnosis/memory/page_faults.h"

#include "common/base/strings.h"
#include "common/base/tr.h"

#include <algorithm>

namespace xpurun::report {

using base::tr;
using model::MachineFact;
using model::MachineSeries;
using model::MachineSpell;

namespace {

// Events a second within this time, and the series that has most of them.
struct Rate {
  const MachineSeries* series = nullptr;
  double per_s = 0;
};

Rate rate_of(const MachineSeries& s, int64_t begin_wall_ns, int64_t end_wall_ns) {
  Rate out;
  for (const MachineSpell& spell : s.spells) {
    const double seconds =
        (static_cast<double>(spell.end_wall_ns) - static_cast<double>(spell.begin_wall_ns)) / 1e9;
    const bool within = spell.end_wall_ns > begin_wall_ns && spell.begin_wall_ns < end_wall_ns;
    if (within && seconds >= 1 && spell.amount / seconds > out.per_s) {
      out = {&s, spell.amount / seconds};
    }
  }
  return out;
}

Rate limit_rate(const model::MachineHistory& history, base::Rank rank, int64_t begin_wall_ns,
                int64_t end_wall_ns) {
  std::string group;
  for (const model::RankPlace& place : history.places) {
    group = place.rank == rank ? place.memory_group : group;
  }
  Rate out;
  for (const MachineSeries& s : history.series) {
    if (s.fact == MachineFact::memory_limit && s.object == group) {
      out = rate_of(s, begin_wall_ns, end_wall_ns);
    }
  }
  return out;
}

}  // namespace

bool was_at_memory_limit(const model::MachineHistory& history, base::Rank rank, int64_t begin_wall_ns,
                         int64_t end_wall_ns) {
  return limit_rate(history, rank, begin_wall_ns, end_wall_ns).series != nullptr;
}

std::string page_fault_words(const model::MachineHistory& history, base::Rank rank, int64_t begin_wall_ns,
                             int64_t end_wall_ns) {
  constexpr double kMany = 100;        // a second
  constexpr double kManyAtLimit = 20;  // where the kernel has just taken these pages away
  Rate faults;
  for (const MachineSeries& s : history.series) {
    if (s.fact == MachineFact::rank_page_faults && s.rank == rank) {
      faults = rate_of(s, begin_wall_ns, end_wall_ns);
    }
  }
  const Rate limit = limit_rate(history, rank, begin_wall_ns, end_wall_ns);
  if (faults.per_s < (limit.series != nullptr ? kManyAtLimit : kMany)) {
    return {};
  }
  const std::string waited =
      tr("waited for up to {:.0f} pages a second that were not in memory", faults.per_s);
  return limit.series == nullptr
             ? waited
             : tr("{}; control group {} was at its memory limit of {}", waited,
                  base::sanitize(limit.series->object), base::sanitize(limit.series->detail));
}

std::string page_fault_clause(const Scene& scene, const RankView& v) {
  constexpr double kLeastTimeS = 15;  // of several readings
  const auto& machines = scene.facts.machines;
  if (v.record == nullptr || v.record->node >= machines.size()) {
    return {};
  }
  const double begun_ns = static_cast<double>(scene.facts.run.started_wall_ns);
  const auto at_ns = [&](double at_s) {
    constexpr double kFarthest = 9e18;
    return static_cast<int64_t>(std::clamp(begun_ns + at_s * 1e9, -kFarthest, kFarthest));
  };
  const double end_s = scene.dump_at_s();
  const std::string words = page_fault_words(machines[v.record->node], v.rank,
                                             at_ns(end_s - std::max(v.seconds, kLeastTimeS)), at_ns(end_s));
  return words.empty() ? "" : tr("; it {}", words);
}

std::string page_fault_advice() {
  return tr(
      "give the job more memory (the limit of its control group), or let it read less of its files at a "
      "time: "
      "what it has read is taken from memory before it is used again");
}

}  // namespace xpurun::report
