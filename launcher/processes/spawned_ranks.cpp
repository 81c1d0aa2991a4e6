// Ranks without variables of a launcher: processes that one process started, numbered in order of their
// start.
#include "launcher/processes/process_table.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace xpurun::launcher {

using base::Pid;

// Processes forked by a fork server have the server's arguments.
bool ProcessTable::is_helper(const TrackedProcess& p) const {
  const TrackedProcess* parent = find(p.record.ppid);
  if (p.serves) {
    return true;
  }
  switch (multiprocessing_part(p.record.cmdline)) {
    case MultiprocessingPart::none:
      return false;
    case MultiprocessingPart::fork_server:
      return parent == nullptr ||
             multiprocessing_part(parent->record.cmdline) != MultiprocessingPart::fork_server;
    case MultiprocessingPart::resource_tracker:
      break;
  }
  return true;
}

// One program for each word or file that it is given.
bool ProcessTable::runs_programs(const TrackedProcess& p) {
  constexpr std::array<std::string_view, 3> kNames = {"xargs", "parallel", "find"};
  return !p.record.python && std::find(kNames.begin(), kNames.end(), p.record.comm) != kNames.end();
}

std::vector<TrackedProcess*> ProcessTable::started_by(base::Pid ancestor) {
  std::vector<TrackedProcess*> out;
  for (auto& [pid, p] : processes_) {
    // A child that failed before its parent was seen waiting counts too.
    const bool failed = !p.alive && p.record.death.happened && !p.record.death.wait_status.succeeded();
    if (!(p.alive || failed) || !p.record.python || !descends_from(p, ancestor) || is_helper(p)) {
      continue;
    }
    const TrackedProcess* between = find(p.record.ppid);
    while (between != nullptr && between->record.pid != ancestor &&
           (!between->record.python || is_helper(*between))) {
      between = find(between->record.ppid);
    }
    if (between != nullptr && between->record.pid == ancestor) {
      out.push_back(&p);
    }
  }
  return out;
}

void ProcessTable::find_spawned(TrackedProcess& p, std::vector<TrackedProcess*>& ranks) {
  if (spawners_.count(p.record.pid) == 0 && !runs_programs(p)) {
    ranks.push_back(&p);
    return;
  }
  p.spawned = false;
  const std::vector<TrackedProcess*> children = started_by(p.record.pid);
  for (TrackedProcess* child : children) {
    // A process that ended before the others began is not a rank: it may have tested an import.
    const bool belongs =
        child->alive || std::any_of(children.begin(), children.end(), [&](const auto* other) {
          return other->alive && other->record.seen_s <= child->record.death.at_s;
        });
    if (belongs) {
      child->spawned = true;
      find_spawned(*child, ranks);
    }
  }
}

// The topmost of these programs that starts or has started Python, below no Python; null: none.
TrackedProcess* ProcessTable::topmost_runner() {
  const auto started = [](const auto& entry) { return entry.second.spawned; };
  const bool some = std::any_of(processes_.begin(), processes_.end(), started) ||
                    std::any_of(dead_.begin(), dead_.end(), started);
  for (auto& [pid, p] : processes_) {
    const TrackedProcess* above = runs_programs(p) && p.alive ? find(p.record.ppid) : nullptr;
    while (above != nullptr && !above->record.python && !runs_programs(*above)) {
      above = find(above->record.ppid);
    }
    if (p.alive && runs_programs(p) && above == nullptr && (some || !started_by(pid).empty())) {
      return &p;
    }
  }
  return nullptr;
}

// Numbered in start order; dead ranks keep their numbers.
void ProcessTable::number_spawned() {
  std::vector<TrackedProcess*> all;
  for (auto& [key, p] : dead_) {
    all.push_back(&p);
  }
  for (auto& [pid, p] : processes_) {
    all.push_back(&p);
  }
  std::erase_if(all, [](const TrackedProcess* p) { return !p->spawned; });
  std::sort(all.begin(), all.end(), [](const TrackedProcess* a, const TrackedProcess* b) {
    return std::pair(a->record.start_ticks, a->record.pid) < std::pair(b->record.start_ticks, b->record.pid);
  });
  for (size_t i = 0; i < all.size(); ++i) {
    all[i]->record.rank = static_cast<base::Rank>(i);
    all[i]->record.local_rank = static_cast<int>(i);
  }
}

// For jobs without a launcher's variables: rank 0 is the topmost Python process; or, if that process only
// waits for others, the ranks are those others; the same of xargs and its like; without Python, the command
// itself.
void ProcessTable::assign_by_parents() {
  std::vector<TrackedProcess*> ranks;
  TrackedProcess* runner = topmost_runner();
  if (runner != nullptr) {
    find_spawned(*runner, ranks);
  } else if (const TrackedProcess* top = topmost_python()) {
    find_spawned(*find(top->record.pid), ranks);
  } else if (TrackedProcess* command = find(main_); command != nullptr && command->alive) {
    ranks.push_back(command);
  }
  std::unordered_set<Pid> pids;
  for (const TrackedProcess* rank : ranks) {
    pids.insert(rank->record.pid);
  }
  // A process whose parent has ended keeps its role.
  for (auto& [pid, p] : processes_) {
    if (p.alive && p.spawned && spawners_.count(pid) == 0 && pids.count(pid) == 0 &&
        nearest_above(p, pids) == nullptr) {
      ranks.push_back(&p);
      pids.insert(pid);
    }
  }
  for (auto& [pid, p] : processes_) {
    if (p.alive) {
      const bool starts = spawners_.count(pid) != 0 || &p == runner;
      p.record.role = starts ? model::ProcessRole::agent : model::ProcessRole::other;
      p.record.rank = base::kNoRank;
      p.record.local_rank = -1;
      p.record.identity = model::RankSource::none;
    }
  }
  for (TrackedProcess* rank : ranks) {
    rank->record.role = model::ProcessRole::rank;
    rank->record.identity = rank->spawned ? model::RankSource::spawned : model::RankSource::single;
    rank->record.rank = 0;
    rank->record.local_rank = 0;
  }
  number_spawned();
  for (auto& [pid, p] : processes_) {
    if (const TrackedProcess* rank = p.alive ? nearest_above(p, pids) : nullptr) {
      p.record.role = p.record.python ? model::ProcessRole::worker : model::ProcessRole::child;
      p.record.rank = rank->record.rank;
    }
  }
}

bool ProcessTable::add_unreaped(Pid pid) {
  const auto stat = proc_.stat(pid);
  const TrackedProcess* parent = stat ? find(stat->ppid) : nullptr;
  if (find(pid) != nullptr || parent == nullptr || !parent->alive || kind_ ||
      (stat->state != 'Z' && stat->state != 'X')) {
    return false;
  }
  TrackedProcess p;
  p.seen = base::mono_ns();
  p.inspected = true;
  p.record = {
      .pid = pid,
      .ppid = stat->ppid,
      .start_ticks = stat->start_ticks,
      .role = model::takes_part(parent->record.role) ? model::ProcessRole::worker : model::ProcessRole::other,
      .rank = parent->record.rank,
      .comm = stat->comm,
      .python = true,
      .preload = true,
      .seen_s = base::ns_to_s(p.seen - started_)};
  processes_.emplace(pid, std::move(p));
  return true;
}

void ProcessTable::note_manager(base::Pid pid) {
  TrackedProcess* p = find(pid);
  if (p == nullptr || p->serves || kind_) {
    return;
  }
  p->serves = true;
  p->spawned = false;
  assign_roles();
  watch_all();
}

void ProcessTable::note_member(base::Pid pid, base::Rank rank, int world_size) {
  TrackedProcess* p = find(pid);
  if (p == nullptr || p->member || world_size < 2) {
    return;
  }
  p->member = Identity{.kind = IdentityKind::group,
                       .rank = rank,
                       .local_rank = static_cast<int>(rank),
                       .world_size = world_size};
  if (!kind_ || *kind_ == IdentityKind::group) {
    follow_members();
  }
}

// The groups count once all ranks so far are members, and as long as no two processes are the same rank: a
// job may have several groups, or a group of some of its processes.
void ProcessTable::follow_members() {
  std::set<base::Rank> members;
  size_t count = 0;
  for (const auto& [pid, p] : processes_) {
    if (p.alive && p.member) {
      members.insert(p.member->rank);
      ++count;
    }
  }
  members_count_ = members.size() == count && count >= living_ranks().size();
  kind_.reset();
  for (auto& [pid, p] : processes_) {
    if (p.member && (!p.identity || p.identity->kind == IdentityKind::group)) {
      p.identity = members_count_ ? p.member : std::nullopt;
    }
  }
  assign_roles();
  watch_all();
}

bool ProcessTable::has_python_below(Pid ancestor) const {
  return std::any_of(processes_.begin(), processes_.end(), [&](const auto& entry) {
    const TrackedProcess& p = entry.second;
    return p.alive && p.record.python && descends_from(p, ancestor);
  });
}

std::vector<base::Pid> ProcessTable::possible_spawners() const {
  std::vector<base::Pid> out;
  for (const auto& [pid, p] : processes_) {
    const bool is_one = spawners_.count(pid) != 0;
    const bool could_be = !kind_ && p.record.role == model::ProcessRole::rank && p.record.python;
    if (p.alive && (is_one || (could_be && has_python_below(pid)))) {
      out.push_back(pid);
    }
  }
  return out;
}

}  // namespace xpurun::launcher
