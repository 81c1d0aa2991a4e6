#include "report/diagnosis/rules/placement.h"

#include "common/base/tr.h"
#include "report/diagnosis/rules/machine_words.h"
#include "report/diagnosis/wording.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace xpurun::report {

using base::tr;
using model::MachineHistory;
using model::RankPlace;

namespace {

constexpr size_t kMostLines = 4;
constexpr uint64_t kLeastCrowded = 3;  // readings
constexpr double kMuchOfTime = 0.3;

std::set<int> set_of(std::string_view cpus) {
  const std::vector<int> list = model::cpus_in(cpus);
  return {list.begin(), list.end()};
}

bool share_any(const std::set<int>& a, const std::set<int>& b) {
  return std::any_of(a.begin(), a.end(), [&](int cpu) { return b.count(cpu) > 0; });
}

void add_threads(const MachineHistory& machine, std::vector<Placement>& out) {
  std::set<int> all;
  int64_t threads = 0;
  model::RankSet ranks;
  model::RankSet crowded;
  for (const RankPlace& p : machine.places) {
    const std::set<int> own = set_of(p.cpus);
    all.insert(own.begin(), own.end());
    threads += p.omp_threads;
    if (p.omp_threads > 0) {
      ranks.insert(p.rank);
    }
    if (p.crowded >= kLeastCrowded && 2 * p.crowded >= p.readings) {
      crowded.insert(p.rank);
    }
  }
  // With one thread for each rank, the CPUs are what is wrong.
  const bool several = threads > static_cast<int64_t>(ranks.size());
  if (!all.empty() && several && threads > static_cast<int64_t>(all.size())) {
    out.push_back({.id = "cpu.omp_threads",
                   .ranks = ranks,
                   .title = tr("OMP_NUM_THREADS asks for more threads ({}) than CPUs are allowed ({})",
                               threads, all.size()),
                   .evidence = {tr("{}: {} threads together", rank_words(ranks), threads)},
                   .next = tr("set OMP_NUM_THREADS to {} or less",
                              std::max<size_t>(1, all.size() / std::max<size_t>(1, ranks.size())))});
  }
  if (!crowded.empty()) {
    out.push_back(
        {.id = "cpu.crowded",
         .ranks = crowded,
         .title = tr("{}: more threads want to run than CPUs are allowed", rank_words(crowded)),
         .next = tr("allow the ranks more CPUs (cpuset, taskset, --cpus-per-task), or use fewer threads")});
  }
}

void add_pinning(const MachineHistory& machine, std::vector<Placement>& out) {
  std::map<int, model::RankSet> on_core;
  model::RankSet away;
  std::vector<std::string> lines;
  for (const RankPlace& p : machine.places) {
    const std::set<int> own = set_of(p.cpus);
    if (own.size() == 1) {
      on_core[*own.begin()].insert(p.rank);
    }
    const std::pair<std::string, std::string> devices[] = {{p.gpu, p.gpu_cpus}, {p.nic, p.nic_cpus}};
    for (const auto& [device, cpus] : devices) {
      const std::set<int> near = set_of(cpus);
      if (!near.empty() && !own.empty() && !share_any(own, near)) {
        away.insert(p.rank);
        if (lines.size() < kMostLines) {
          lines.push_back(tr("rank {} may use CPUs {}; those near {} are {}", p.rank, p.cpus, device, cpus));
        }
      }
    }
  }
  for (const auto& [core, ranks] : on_core) {
    if (ranks.size() > 1) {
      out.push_back({.id = "cpu.shared_core",
                     .ranks = ranks,
                     .title = tr("{} are pinned to one CPU, number {}", rank_words(ranks), core),
                     .next = tr("give each rank CPUs of its own (taskset, numactl, --cpu-bind)")});
      break;  // one mistake, many cores
    }
  }
  if (!away.empty()) {
    out.push_back({.id = "cpu.far_device",
                   .ranks = away,
                   .title = tr("{}: the CPUs are on another NUMA node than the device", rank_words(away)),
                   .evidence = std::move(lines),
                   .next = tr("bind each rank to the NUMA node of its GPU (numactl, --cpu-bind)"),
                   .command = "nvidia-smi topo -m"});
  }
}

// When the last of these ranks got the CPUs that it has.
int64_t since_ns(const MachineHistory& machine, const model::RankSet& ranks) {
  int64_t out = machine.begin_wall_ns;
  for (const RankPlace& p : machine.places) {
    out = ranks.contains(p.rank) ? std::max(out, p.since_wall_ns) : out;
  }
  return out;
}

// Of the time that the ranks had their CPUs, the part in which their threads were ready and had no CPU for
// much of the time.
double lacked_cpu(const MachineHistory& machine, const model::RankSet& ranks) {
  constexpr double kLeastS = 15;  // several readings
  constexpr double kStartS = 5;   // a rank that is pinned at its start may have been seen before
  const double from_ns = static_cast<double>(since_ns(machine, ranks));
  double most = 0;
  for (const model::MachineSeries& s : machine.series) {
    if (s.fact != model::MachineFact::no_cpu || !ranks.contains(s.rank)) {
      continue;
    }
    double sum = 0;
    for (const model::MachineSpell& spell : lasting_spells(s)) {
      sum += std::max(0.0, static_cast<double>(spell.end_wall_ns) -
                               std::max(static_cast<double>(spell.begin_wall_ns), from_ns));
    }
    most = std::max(most, sum);
  }
  const double all = static_cast<double>(machine.end_wall_ns) - from_ns;
  const bool later = from_ns - static_cast<double>(machine.begin_wall_ns) > kStartS * 1e9;
  return all > 0 && !(later && all < kLeastS * 1e9) ? most / all : 0;
}

}  // namespace

std::vector<Placement> placements(const MachineHistory& machine) {
  std::vector<Placement> out;
  add_threads(machine, out);
  add_pinning(machine, out);
  return out;
}

std::vector<Placement> harmful_placements(const MachineHistory& machine) {
  std::vector<Placement> out = placements(machine);
  // A device that is far away costs bandwidth, no CPU time.
  std::erase_if(out, [&](const Placement& p) {
    return p.id == "cpu.far_device" || lacked_cpu(machine, p.ranks) < kMuchOfTime;
  });
  // What is pinned to one CPU is crowded because of that.
  const auto core =
      std::find_if(out.begin(), out.end(), [](const Placement& p) { return p.id == "cpu.shared_core"; });
  if (core != out.end()) {
    std::rotate(out.begin(), core, core + 1);
  }
  return out;
}

}  // namespace xpurun::report
