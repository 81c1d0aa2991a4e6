#include "launcher/machine/memory/memory_users.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::launcher {

using model::MemoryUser;
using model::MemoryUsers;
using model::UserRole;

namespace {

constexpr int kRestMs = 2000;  // between two looks at the numbers, while there is room
constexpr int kSomeMs = 1100;  // with less room: it may be gone within two seconds
constexpr int kBusyMs = 200;   // and once there is little
constexpr base::MonoNs kGroupsNs = 5'000'000'000;
constexpr double kSomeUsed = 0.15;
constexpr double kMuchUsed = 0.5;
constexpr double kFuller = 1.02;  // than at the look before
constexpr double kNearlyFull = 0.85;
// Of the CPU time of a look, until the next one: while there is room, and once there is little.
constexpr int64_t kCostFactor = 40;
constexpr int64_t kCostFactorFull = 4;
constexpr size_t kMostUsers = 32;  // several ranks, each with the workers of its data loader
constexpr size_t kMostMaps = 32;   // processes whose mappings are read
constexpr size_t kMostMembers = 4096;
constexpr int64_t kLeastMapped = int64_t{16} << 20;
constexpr int kMostAncestors = 64;  // ancestors
constexpr size_t kLongestCommand = 60;
constexpr size_t kMostFolders = 64;
constexpr size_t kLongestMaps = size_t{32} << 20;

// "python sidecar.py": the program, and its first word that is no option.
std::string command_of(const base::ProcFs& proc, const base::ProcStat& stat) {
  const auto words = proc.cmdline(stat.pid);
  if (words.empty()) {
    return base::sanitize(stat.comm);
  }
  std::string out(base::base_name(words.front()));
  if (words.size() > 1 && !words[1].starts_with('-')) {
    out += fmt::format(" {}", base::base_name(words[1]));
  }
  return base::sanitize(out.substr(0, kLongestCommand));
}

void add_members(const HostFiles& host, const std::string& directory, size_t& folders,
                 std::vector<base::Pid>& out) {
  if (++folders > kMostFolders) {
    return;
  }
  const std::string text = host.sys_text(directory + "/cgroup.procs");
  for (const std::string_view line : base::split(text, '\n')) {
    const auto pid = base::parse_int(line);
    if (pid && *pid > 0 && out.size() < kMostMembers) {
      out.push_back(static_cast<base::Pid>(*pid));
    }
  }
  for (const std::string& name : host.sys_names(directory)) {
    // Names of the kernel's files have a dot, those of some groups too.
    if (!host.sys_text(fmt::format("{}/{}/cgroup.procs", directory, name)).empty()) {
      add_members(host, fmt::format("{}/{}", directory, name), folders, out);
    }
  }
}

std::vector<base::Pid> members_of(const HostFiles& host, const ControlGroup& group) {
  if (group.directory.empty()) {
    return host.proc().processes();
  }
  std::vector<base::Pid> out;
  size_t folders = 0;
  add_members(host, group.directory, folders, out);
  return out;
}

GroupMemory use_of_host(const HostFiles& host) {
  const MemoryOfHost memory = host_memory(host);
  return {.processes = memory.total - memory.available - memory.shared, .shared = memory.shared};
}

using Maps = std::vector<MemoryMap>;

// The anonymous mappings of `maps`, which are in the order of addresses, that overlap with this one.
std::vector<const MemoryMap*> overlapping(const Maps& maps, const MemoryMap& map) {
  std::vector<const MemoryMap*> out;
  auto it = std::lower_bound(maps.begin(), maps.end(), map.begin,
                             [](const MemoryMap& m, uint64_t begin) { return m.end <= begin; });
  for (; it != maps.end() && it->begin < map.end; ++it) {
    if (it->is_anonymous()) {
      out.push_back(&*it);
    }
  }
  return out;
}

// What a process that was forked takes of the memory that it had in common with its parent. `inherited`: the
// begins of such mappings so far; what a process maps after the fork, it never has in common, even at an
// address that its parent uses. Adds the parent's mappings to `parents`.
int64_t inherited_bytes(const Maps& own, const Maps& parent, std::set<uint64_t>& inherited,
                        std::set<const MemoryMap*>& parents) {
  int64_t out = 0;
  for (const MemoryMap& map : own) {
    const auto origins = map.is_anonymous() ? overlapping(parent, map) : std::vector<const MemoryMap*>();
    // After all pages are copied, only the equal bounds tell.
    const bool equal = std::any_of(origins.begin(), origins.end(), [&](const MemoryMap* m) {
      return m->begin == map.begin && (m->end == map.end || m->path == "[heap]");
    });
    if (equal || (!origins.empty() && map.in_common > 0)) {
      inherited.insert(map.begin);
    }
    if (!origins.empty() && inherited.contains(map.begin)) {
      out += map.part;
      parents.insert(origins.begin(), origins.end());
    }
  }
  return out;
}

// The command that xpurun has started, as a process of no rank. Empty: it has ended.
std::vector<WatchedRank> command_of_job(const base::ProcFs& proc, base::Pid job) {
  const std::string own = proc.exe(job);
  for (const base::Pid child : proc.children(job)) {
    if (proc.exe(child) != own) {  // a helper is xpurun itself
      return {{.pid = child}};
    }
  }
  return {};
}

}  // namespace

void MemoryUsersWatch::find_groups(const HostFiles& host) {
  const int64_t memory = host_memory(host).total;
  std::map<std::string, ControlGroup> groups;
  for (const WatchedRank& rank : ranks_) {
    ControlGroup group = limiting_group(host, rank.pid, memory).value_or(ControlGroup{.limit_bytes = memory});
    if (group.limit_bytes > 0) {
      groups.emplace(group.directory, std::move(group));
    }
  }
  groups_.clear();
  for (auto& [directory, group] : groups) {
    groups_.push_back(std::move(group));
  }
}

void MemoryUsersWatch::begin(const HostFiles& host) {
  fullest_.clear();
  known_.clear();
  files_before_.reset();
  files_before_.emplace(host.proc().text(ranks_.front().pid, "mountinfo"));
  files_before_->add_mounts(host.proc(), ranks_.front().pid);
}

int MemoryUsersWatch::turn(const HostFiles& host, const std::vector<WatchedRank>& known, base::MonoNs now,
                           int64_t wall_ns) {
  had_ranks_ = had_ranks_ || !known.empty();
  // The memory may be full before there is a rank.
  const std::vector<WatchedRank> ranks = had_ranks_ ? known : command_of_job(host.proc(), job_);
  if (ranks.empty()) {
    return kRestMs;  // all have died, perhaps of this
  }
  if (ranks != ranks_) {
    // Other ranks after a restart: what was before says nothing of them. A rank less has died, perhaps of
    // this.
    const bool restarted = std::none_of(ranks.begin(), ranks.end(), [&](const WatchedRank& rank) {
      return std::find(ranks_.begin(), ranks_.end(), rank) != ranks_.end();
    });
    ranks_ = ranks;
    next_groups_ = now;
    if (restarted) {
      begin(host);
      next_ = now;
    }
  }
  if (now < next_) {
    return static_cast<int>((next_ - now) / 1'000'000) + 1;
  }
  if (now >= next_groups_) {  // a rank may be put into a group after it has begun
    find_groups(host);
    next_groups_ = now + kGroupsNs;
  }
  int wait_ms = kRestMs;
  for (const ControlGroup& group : groups_) {
    const auto use = group.directory.empty() ? std::optional(use_of_host(host)) : group_memory(host, group);
    const int64_t used = use ? use->processes + use->shared : 0;
    const double part = static_cast<double>(used) / static_cast<double>(group.limit_bytes);
    if (part < kMuchUsed) {
      wait_ms = part < kSomeUsed ? wait_ms : std::min(wait_ms, kSomeMs);
      continue;
    }
    wait_ms = kBusyMs;
    Fullest& last = fullest_[group.directory];
    const int64_t factor = part < kNearlyFull ? kCostFactor : kCostFactorFull;
    const bool rested = now - last.looked >= last.cost_ns * factor;
    if (rested && static_cast<double>(used) >= kFuller * static_cast<double>(last.bytes)) {
      const base::MonoNs begin = base::thread_cpu_ns();  // a busy host makes a look long, but no dearer
      look(host, group, *use, wall_ns);
      last = {.bytes = used, .looked = now, .cost_ns = base::thread_cpu_ns() - begin};
    }
  }
  next_ = now + int64_t{wait_ms} * 1'000'000;
  return wait_ms;
}

void MemoryUsersWatch::look(const HostFiles& host, const ControlGroup& group, const GroupMemory& use,
                            int64_t wall_ns) {
  const base::ProcFs proc = host.proc();
  MemoryUsers out{.group = base::sanitize(group.path),
                  .wall_ns = wall_ns,
                  .limit_bytes = group.limit_bytes,
                  .used_bytes = use.processes + use.shared,
                  .shared_bytes = use.shared};
  for (const base::Pid pid : members_of(host, group)) {
    const auto memory = proc.memory(pid);
    if (memory && memory->resident_bytes > 0) {
      ++out.processes;
      out.users.push_back({.pid = pid, .bytes = static_cast<int64_t>(memory->resident_bytes)});
    }
  }
  const auto larger = [](const MemoryUser& a, const MemoryUser& b) { return a.bytes > b.bytes; };
  std::stable_sort(out.users.begin(), out.users.end(), larger);
  out.users.resize(std::min(out.users.size(), kMostUsers));
  name_roles(proc, out.users);
  read_maps(proc, out);
  std::stable_sort(out.users.begin(), out.users.end(), larger);
  for (MemoryUser& user : out.users) {
    Known& known = known_[user.pid];
    known.first_bytes = known.first_bytes == 0 ? user.bytes : known.first_bytes;
    user.grown = std::max<int64_t>(user.bytes - known.first_bytes, 0);
  }
  looks_.push_back(std::move(out));
}

void MemoryUsersWatch::name_roles(const base::ProcFs& proc, std::vector<MemoryUser>& users) {
  std::map<base::Pid, base::Rank> ranks;
  std::set<base::Pid> ancestors;
  std::set<base::Pid> commands;  // without ranks so far
  const auto parent_of = [&](base::Pid pid) {
    const auto stat = proc.stat(pid);
    return stat ? stat->ppid : 0;
  };
  for (const WatchedRank& rank : ranks_) {
    if (rank.rank == base::kNoRank) {
      commands.insert(rank.pid);
      continue;
    }
    ranks[rank.pid] = rank.rank;
    base::Pid pid = parent_of(rank.pid);
    for (int depth = 0; depth < kMostAncestors && pid > 1 && ancestors.insert(pid).second; ++depth) {
      pid = parent_of(pid);
    }
  }
  const std::string own = proc.exe(job_);
  for (MemoryUser& user : users) {
    const auto stat = proc.stat(user.pid);
    user.command = stat ? command_of(proc, *stat) : std::string();
    base::Pid at = user.pid;
    for (int depth = 0; depth < kMostAncestors && at > 1 && user.role == UserRole::other; ++depth) {
      if (const auto of_rank = ranks.find(at); of_rank != ranks.end()) {
        user.role = at == user.pid ? UserRole::rank : UserRole::child;
        user.rank = of_rank->second;
      } else if (commands.contains(at)) {
        user.role = UserRole::job;
      }
      at = parent_of(at);
    }
    // A child of a rank that has died has another parent.
    Known& known = known_[user.pid];
    if (user.role == UserRole::other && known.rank != base::kNoRank) {
      user.role = UserRole::child;
      user.rank = known.rank;
    }
    known.rank = user.rank;
    // xpurun's helpers are xpurun itself in another role.
    if (user.role == UserRole::other &&
        (ancestors.contains(user.pid) || user.pid == job_ || (!own.empty() && proc.exe(user.pid) == own))) {
      user.role = UserRole::job;
    }
  }
}

// What the processes that a dead rank has forked had copied before: its pages are gone, theirs are not.
void MemoryUsersWatch::keep_copies_of_dead(const base::ProcFs& proc, MemoryUsers& look) {
  std::set<base::Pid> dead;
  for (MemoryUser& user : look.users) {
    const base::Pid parent = known_[user.pid].parent;
    if (parent != 0 && !proc.stat(parent) && dead.insert(parent).second) {
      user.copied += known_[parent].copied;
    }
  }
}

void MemoryUsersWatch::read_maps(const base::ProcFs& proc, MemoryUsers& look) {
  std::map<base::Pid, Maps> maps;
  const auto lives = [&](const WatchedRank& rank) { return bool(proc.stat(rank.pid)); };
  const auto rank = std::find_if(ranks_.begin(), ranks_.end(), lives);
  const base::Pid sight = rank == ranks_.end() ? job_ : rank->pid;
  MemoryFiles files(proc.text(sight, "mountinfo"));
  const bool shared = look.shared_bytes >= kLeastMapped;
  if (shared) {
    files.add_mounts(proc, sight);
  }
  for (MemoryUser& user : look.users) {
    if (shared) {  // what a small process has open may be large
      files.add_open(proc, user.pid, user.rank);
    }
    if (maps.size() >= kMostMaps || user.bytes < kLeastMapped) {
      continue;
    }
    auto& own = maps[user.pid] =
        memory_maps_in(base::read_file_start(proc.path(user.pid, "smaps"), kLongestMaps).value_or(""));
    int64_t part = 0;
    for (const MemoryMap& map : own) {
      part += map.part;
    }
    user.bytes = part > 0 ? part : user.bytes;
    files.add_maps(own, user.rank);
  }
  std::map<base::Pid, std::pair<int64_t, std::set<const MemoryMap*>>> families;  // by parent
  for (const auto& [pid, own] : maps) {
    const auto stat = proc.stat(pid);
    if (const auto parent = stat ? maps.find(stat->ppid) : maps.end(); parent != maps.end()) {
      auto& [bytes, origins] = families[parent->first];
      bytes += inherited_bytes(own, parent->second, known_[pid].inherited, origins);
      known_[pid].parent = parent->first;
    }
  }
  for (MemoryUser& user : look.users) {
    if (const auto family = families.find(user.pid); family != families.end()) {
      // Without copies, the parts of all add up to what the parent has.
      const auto& [bytes, origins] = family->second;
      user.copied = bytes;
      for (const MemoryMap* map : origins) {
        user.copied += map->part - map->resident;
      }
      user.copied = std::max<int64_t>(user.copied, 0);
      known_[user.pid].copied = user.copied;
    }
  }
  keep_copies_of_dead(proc, look);
  // What was there before the ranks may belong to others, unless all of it counts here.
  const bool all_here = files.shared_bytes() <= look.shared_bytes + kLeastMapped;
  look.mapped = files.list(files_before_ && !all_here ? &*files_before_ : nullptr);
}

}  // namespace xpurun::launcher
