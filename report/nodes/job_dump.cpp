#include "report/nodes/job_dump.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "report/diagnosis/diagnose.h"
#include "report/diagnosis/rank_view.h"
#include "report/nodes/merged_run.h"
#include "report/run/picked_dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>

namespace xpurun::report {

using model::DumpManifest;
using model::RunManifest;

namespace {

// A dump of another node within this time shows the same moment, unless both are of one stall.
constexpr double kSameMomentS = 5;

using DumpTimes = std::unordered_map<std::string_view, double>;

// Times of dumps, by name.
DumpTimes dump_times(const RunManifest& run) {
  DumpTimes out;
  for (const model::DumpRecord& d : run.dumps) {
    out.emplace(d.dir, d.at_s);
  }
  return out;
}

// Every dump on the disk of the node, with its time where run.json or dump.json knows it.
std::vector<DumpPart> dumps_of(const JobRuns& job, size_t n, double shift_s, const DumpTimes& times) {
  const NodeRun& node = job.nodes[n];
  std::vector<DumpPart> out;
  for (const std::string& path : model::RunDir(node.path).dumps()) {
    DumpPart part{
        .node = n, .name = fmt::format("{}dumps/{}", node.label, base::base_name(path)), .path = path};
    if (const auto known = times.find(part.name); known != times.end()) {
      part.at_s = known->second;
    } else if (const auto manifest = model::load_dump_manifest(path + "/dump.json")) {
      part.at_s = manifest->at_s + shift_s;
    } else {
      continue;
    }
    out.push_back(std::move(part));
  }
  return out;
}

bool in_one_stall(const RunManifest& run, double a_s, double b_s) {
  return std::any_of(run.stalls.begin(), run.stalls.end(), [&](const model::Stall& i) {
    const auto within = [&](double at_s) {
      return at_s >= i.at_s - kSameMomentS && (i.cleared_s < 0 || at_s <= i.cleared_s);
    };
    return within(a_s) && within(b_s);
  });
}

// A node's dump of the moment: the dump for the same request as the shown one, else the nearest.
const DumpPart* part_of(const NodeRun& node, const std::vector<DumpPart>& dumps, bool asked_together,
                        const RunManifest& run, double at_s) {
  const DumpPart* best = nullptr;
  for (const DumpPart& d : dumps) {
    if (asked_together && !node.entry.dump.empty() && d.name == node.label + node.entry.dump) {
      return &d;
    }
    const double apart_s = std::abs(d.at_s - at_s);
    const size_t n = d.node;
    const double slack_s = kSameMomentS + (n < run.nodes.size() ? run.nodes[n].uncertainty_s : 0);
    const bool same = apart_s <= slack_s || in_one_stall(run, d.at_s, at_s);
    if (same && (best == nullptr || apart_s < std::abs(best->at_s - at_s))) {
      best = &d;
    }
  }
  return best;
}

const DumpPart* find_part(const std::vector<std::vector<DumpPart>>& dumps, const std::string& name) {
  for (const auto& of_node : dumps) {
    for (const DumpPart& d : of_node) {
      if (d.name == name) {
        return &d;
      }
    }
  }
  return nullptr;
}

const std::string& host_of_part(const DumpManifest& manifest, const RunManifest& run, size_t n) {
  return manifest.host.empty() ? host_of(run, n) : manifest.host;
}

model::ProcessStacks absent(base::Rank rank, base::Pid pid, const std::string& host, std::string reason) {
  model::ProcessStacks p;
  p.rank = rank;
  p.pid = pid;
  p.host = host;
  p.role = model::ProcessRole::rank;
  p.status = model::DumpStatus::failed;
  p.reason = std::move(reason);
  return p;
}

// Ranks that are in no part of the dump.
void add_missing_ranks(const RunManifest& run, const JobDump& dump, MergedDump& merged) {
  DumpManifest& all = *merged.manifest;
  const auto add = [&](base::Rank rank, base::Pid pid, const std::string& host, const std::string& reason) {
    all.processes.push_back({.pid = pid,
                             .rank = rank,
                             .role = model::ProcessRole::rank,
                             .status = model::DumpStatus::failed,
                             .reason = reason,
                             .host = host});
    merged.absent.push_back(absent(rank, pid, host, reason));
  };
  std::set<base::Rank> reported;
  for (const model::RankObservation& o : all.ranks) {
    reported.insert(o.rank);
  }
  for (const model::DumpedProcess& p : all.processes) {
    if (p.role == model::ProcessRole::rank) {
      reported.insert(p.rank);
    }
  }
  for (const model::ProcessRecord* p : current_ranks(run)) {
    if (!reported.insert(p->rank).second) {
      continue;
    }
    const std::string& host = host_of(run, p->node);
    if (p->death.happened && p->death.at_s <= dump.at_s + run.nodes[p->node].uncertainty_s) {
      all.ranks.push_back({.rank = p->rank,
                           .pid = p->pid,
                           .host = host,
                           .alive = false,
                           .wait_status = p->death.wait_status,
                           .dead_s = std::max(0.0, dump.at_s - p->death.at_s)});
      merged.absent.push_back(absent(p->rank, p->pid, host, p->death.wait_status.text()));
      continue;
    }
    add(p->rank, p->pid, host, fmt::format("host {} has no dump of that moment", base::sanitize(host)));
  }
  for (const model::RunNode& node : run.nodes) {
    if (node.answered) {
      continue;
    }
    for (const base::Rank rank : node.ranks.ranks()) {
      if (reported.insert(rank).second) {
        add(rank, 0, node.host, node.gap);
      }
    }
  }
}

}  // namespace

JobDump pick_job_dump(const JobRuns& job, const RunManifest& run) {
  const NodeRun& here = job.nodes.front();
  JobDump out;
  std::vector<std::vector<DumpPart>> dumps;
  const DumpTimes times = dump_times(run);
  const std::vector<double> shifts = shifts_of(job);
  for (size_t n = 0; n < job.nodes.size(); ++n) {
    dumps.push_back(job.several() && job.nodes[n].answered ? dumps_of(job, n, shifts[n], times)
                                                           : std::vector<DumpPart>());
  }
  const model::RunDir dir(here.path);
  if (!job.several()) {
    const PickedDump picked = pick_dump(dir, run);
    out.shown = picked.shown;
    out.evidence = picked.evidence;
    if (!picked.shown.empty()) {
      out.parts.push_back({.name = picked.shown, .path = dir.file(picked.shown)});
    }
    return out;
  }
  const DumpPart* shown = find_part(dumps, dump_that_matters(run));
  out.evidence = shown != nullptr;
  if (shown == nullptr) {
    const PickedDump picked = pick_dump(dir, run);
    shown = find_part(dumps, picked.shown);
    out.evidence = picked.evidence;
  }
  for (size_t n = 1; n < dumps.size() && shown == nullptr; ++n) {
    shown = dumps[n].empty() ? nullptr : &dumps[n].back();
  }
  if (shown == nullptr) {
    out.evidence = false;
    return out;
  }
  out.shown = shown->name;
  out.at_s = shown->at_s;
  const NodeRun& of_shown = job.nodes[shown->node];
  const bool asked_together =
      !of_shown.entry.dump.empty() && shown->name == of_shown.label + of_shown.entry.dump;
  for (size_t n = 0; n < dumps.size(); ++n) {
    const DumpPart* part =
        n == shown->node ? shown : part_of(job.nodes[n], dumps[n], asked_together, run, out.at_s);
    if (part != nullptr) {
      out.parts.push_back(*part);
    }
  }
  return out;
}

MergedDump merge_dumps(const JobRuns& job, const RunManifest& run, const RankOwners& owners,
                       const JobDump& dump) {
  MergedDump merged;
  std::optional<DumpManifest>& all = merged.manifest;
  double first_s = dump.at_s;
  double last_s = dump.at_s;
  // Fields that exist once per job come from the part that decides on the moment.
  std::vector<const DumpPart*> parts;
  for (const DumpPart& part : dump.parts) {
    parts.insert(part.name == dump.shown ? parts.begin() : parts.end(), &part);
  }
  for (const DumpPart* part : parts) {
    auto manifest = model::load_dump_manifest(part->path + "/dump.json");
    if (!manifest) {
      continue;  // collect() names it
    }
    if (!job.several()) {
      all = std::move(*manifest);
      return merged;
    }
    const std::string host = host_of_part(*manifest, run, part->node);
    std::erase_if(manifest->processes, [&](const auto& p) { return !owners.owns(part->node, p.rank); });
    std::erase_if(manifest->ranks, [&](const auto& o) { return !owners.owns(part->node, o.rank); });
    for (model::DumpedProcess& p : manifest->processes) {
      p.host = p.host.empty() ? host : p.host;
    }
    for (model::RankObservation& o : manifest->ranks) {
      o.host = o.host.empty() ? host : o.host;
    }
    if (!all) {
      all = std::move(*manifest);
      all->at_s = dump.at_s;
      continue;
    }
    std::ranges::move(manifest->processes, std::back_inserter(all->processes));
    std::ranges::move(manifest->ranks, std::back_inserter(all->ranks));
    all->escalated = all->escalated || manifest->escalated;
    all->idle_counts = all->idle_counts || manifest->idle_counts;
    all->spread_ns = std::max(all->spread_ns, manifest->spread_ns);
    first_s = std::min(first_s, part->at_s);
    last_s = std::max(last_s, part->at_s);
  }
  if (!all) {
    return merged;
  }
  const double apart_ns = std::clamp((last_s - first_s) * 1e9, 0.0, 1e18);
  all->spread_ns = std::clamp<int64_t>(all->spread_ns, 0, int64_t{1} << 62);
  all->spread_ns += static_cast<int64_t>(apart_ns);
  add_missing_ranks(run, dump, merged);
  return merged;
}

void add_calls_of(model::CollectiveFacts part, const DumpPart& of, double later_s, const RankOwners& owners,
                  model::CollectiveFacts& all) {
  const auto move_ages = [later_s](std::vector<model::CollectiveCall>& calls) {
    for (model::CollectiveCall& c : calls) {
      c.age_s = c.age_s < 0 ? c.age_s : std::max(0.0, c.age_s - later_s);
    }
  };
  for (model::RankCollectives& r : part.ranks) {
    if (!owners.owns(of.node, r.rank)) {
      continue;
    }
    for (model::Communicator& c : r.communicators) {
      move_ages(c.calls);
      move_ages(c.point_to_point);
    }
    all.ranks.push_back(std::move(r));
  }
}

void complete_members(model::CollectiveFacts& all) {
  struct Known {
    model::Communicator* first = nullptr;
    std::map<int, base::Rank> ranks;
    int size = 0;
  };
  std::map<std::pair<model::CallSource, std::string>, Known> communicators;
  for (model::RankCollectives& r : all.ranks) {
    for (model::Communicator& c : r.communicators) {
      Known& known = communicators[{c.source, c.id}];
      if (known.first == nullptr) {
        known.first = &c;
      } else if (known.first->members.empty()) {
        known.first->members = std::move(c.members);
      }
      if (known.first != &c && !known.first->members.empty()) {
        std::vector<base::Rank>().swap(c.members);
      }
      if (c.comparable) {
        known.ranks[c.rank] = r.rank;
        known.size = c.size;
      }
    }
  }
  for (auto& [id, known] : communicators) {
    const auto size = static_cast<size_t>(std::max(known.size, 0));
    const bool whole = size > 0 && known.ranks.size() == size && known.ranks.begin()->first == 0 &&
                       known.ranks.rbegin()->first == known.size - 1;
    if (known.first->members.empty() && whole) {
      for (const auto& [index, rank] : known.ranks) {
        known.first->members.push_back(rank);
      }
    }
  }
}

}  // namespace xpurun::report
