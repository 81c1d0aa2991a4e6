// Which processes of a job are ranks, launchers and helpers of ranks.
#include "launcher/processes/process_table.h"

#include <algorithm>

namespace xpurun::launcher {

using base::Pid;

namespace {

// Bounded: the table may hold stale parents, which could form a circle.
constexpr int kMostAncestors = 64;

model::ProcessRole below_rank(const TrackedProcess& p) {
  return p.record.python ? model::ProcessRole::worker : model::ProcessRole::child;
}

// Of all processes with a rank's variables, the rank is the topmost Python process; without Python, the
// topmost process. `above`: b descends from a.
bool is_better(const TrackedProcess& a, const TrackedProcess& b, bool above) {
  return a.record.python != b.record.python ? a.record.python : above;
}

}  // namespace

bool ProcessTable::descends_from(const TrackedProcess& p, Pid ancestor) const {
  Pid at = p.record.ppid;
  for (int depth = 0; depth < kMostAncestors && at > 1 && at != supervisor_; ++depth) {
    if (at == ancestor) {
      return true;
    }
    const auto it = processes_.find(at);
    if (it == processes_.end()) {
      return false;
    }
    at = it->second.record.ppid;
  }
  return false;
}

const TrackedProcess* ProcessTable::nearest_above(const TrackedProcess& p,
                                                  const std::unordered_set<Pid>& pids) const {
  Pid at = p.record.ppid;
  for (int depth = 0; depth < kMostAncestors && at > 1 && at != supervisor_; ++depth) {
    const auto it = processes_.find(at);
    if (it == processes_.end() || pids.count(at) != 0) {
      return it == processes_.end() ? nullptr : &it->second;
    }
    at = it->second.record.ppid;
  }
  return nullptr;
}

std::unordered_set<Pid> ProcessTable::all_above(const std::unordered_set<Pid>& pids) const {
  std::unordered_set<Pid> out;
  for (const Pid pid : pids) {
    const TrackedProcess* p = find(pid);
    for (int depth = 0; depth < kMostAncestors && p != nullptr; ++depth) {
      p = find(p->record.ppid);
      // The ancestors of a known ancestor are known too.
      if (p == nullptr || p->record.pid == supervisor_ || !out.insert(p->record.pid).second) {
        break;
      }
    }
  }
  return out;
}

void ProcessTable::assign_roles() {
  for (const auto& [pid, p] : processes_) {
    if (p.alive && p.identity && (!kind_ || p.identity->kind < *kind_)) {
      kind_ = p.identity->kind;
    }
  }
  if (kind_) {
    assign_by_variables();
  } else {
    assign_by_parents();
  }
  ranks_.clear();
  for (const auto& [pid, p] : processes_) {
    if (p.record.role == model::ProcessRole::rank) {
      ranks_.insert(pid);
    }
  }
}

bool ProcessTable::assign_alone(TrackedProcess& p) {
  const bool settled =
      p.record.role == model::ProcessRole::rank || p.record.role == model::ProcessRole::agent;
  const TrackedProcess* rank = nearest_above(p, ranks_);
  if (settled || p.left_behind || rank == nullptr || !rank->alive ||
      rank->record.role != model::ProcessRole::rank || (p.record.python && !rank->record.python)) {
    return false;
  }
  if (p.identity && (!kind_ || p.identity->kind < *kind_)) {
    return false;
  }
  // With the variables of another rank than the one above, the process may be that rank.
  if (p.identity && p.identity->kind == *kind_ && p.identity->rank != rank->record.rank) {
    return false;
  }
  p.record.role = below_rank(p);
  p.record.rank = rank->record.rank;
  p.record.local_rank = -1;
  return true;
}

void ProcessTable::choose_ranks() {
  chosen_.clear();
  for (const auto& [pid, p] : processes_) {
    if (!p.alive || !p.identity || p.identity->kind != *kind_ || p.left_behind) {
      continue;
    }
    const auto it = chosen_.find(p.identity->rank);
    if (it == chosen_.end() ||
        is_better(p, processes_.at(it->second), descends_from(processes_.at(it->second), pid))) {
      chosen_[p.identity->rank] = pid;
    }
  }
}

void ProcessTable::assign_by_variables() {
  find_left_behind();
  choose_ranks();
  std::unordered_set<Pid> ranks;
  for (const auto& [rank, pid] : chosen_) {
    ranks.insert(pid);
  }
  const std::unordered_set<Pid> agents = all_above(ranks);
  for (auto& [pid, p] : processes_) {
    if (!p.alive) {
      continue;
    }
    model::ProcessRecord& r = p.record;
    r.local_rank = -1;
    if (p.left_behind) {
      r.role = below_rank(p);
      r.rank = p.identity->rank;
    } else if (ranks.count(pid) != 0) {
      r.role = model::ProcessRole::rank;
      r.rank = p.identity->rank;
      r.local_rank = p.identity->local_rank;
      r.identity = source_of(*kind_);
    } else if (agents.count(pid) != 0) {
      r.role = model::ProcessRole::agent;
      r.rank = base::kNoRank;
    } else if (const TrackedProcess* rank = nearest_above(p, ranks)) {
      r.role = below_rank(p);
      r.rank = rank->identity->rank;
    } else {
      r.role = model::ProcessRole::other;
      r.rank = is_twin(p) ? p.identity->rank : base::kNoRank;
    }
  }
}

// Started as a rank that another process is, with the same words.
bool ProcessTable::is_twin(const TrackedProcess& p) const {
  if (!p.identity || p.identity->kind != *kind_ || !p.record.python) {
    return false;
  }
  const auto rank = chosen_.find(p.identity->rank);
  return rank != chosen_.end() && find(rank->second)->record.cmdline == p.record.cmdline;
}

// Finds orphans (now children of xpurun, the subreaper) with the variables of an earlier rank: helpers that
// an ended rank left behind. A restarted rank is a child of its launcher and so not an orphan. A process that
// has been a rank stays a rank when its launcher ends.
void ProcessTable::find_left_behind() {
  std::vector<const TrackedProcess*> ranks;
  for (const auto& [key, p] : dead_) {
    if (p.record.role == model::ProcessRole::rank) {
      ranks.push_back(&p);
    }
  }
  for (const auto& [pid, p] : processes_) {
    if (p.record.role == model::ProcessRole::rank) {
      ranks.push_back(&p);
    }
  }
  for (auto& entry : processes_) {
    TrackedProcess& p = entry.second;
    const bool orphan = p.record.ppid == supervisor_ && p.record.pid != main_;
    if (!p.alive || p.left_behind || !p.identity || !orphan || p.record.role == model::ProcessRole::rank) {
      continue;
    }
    p.left_behind = std::any_of(ranks.begin(), ranks.end(), [&p](const TrackedProcess* rank) {
      return rank->identity == p.identity && std::pair(rank->record.start_ticks, rank->record.pid) <
                                                 std::pair(p.record.start_ticks, p.record.pid);
    });
  }
}

const TrackedProcess* ProcessTable::topmost_python() const {
  const TrackedProcess* chosen = nullptr;
  for (const auto& [pid, p] : processes_) {
    if (p.alive && p.record.python && !is_helper(p) && (chosen == nullptr || descends_from(*chosen, pid))) {
      chosen = &p;
    }
  }
  return chosen;
}

}  // namespace xpurun::launcher
