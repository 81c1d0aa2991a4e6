#include "report/diagnosis/memory/memory_users_words.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/wording.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace xpurun::report {

using base::tr;
using model::MappedKind;
using model::MappedMemory;
using model::MemoryUser;
using model::MemoryUsers;
using model::UserRole;

namespace {

constexpr int64_t kLeast = int64_t{64} << 20;
constexpr int64_t kLeastTold = int64_t{16} << 20;
constexpr double kMuchOfAll = 0.2;
constexpr size_t kMostNamed = 2;
constexpr size_t kMostTold = 6;
constexpr double kLookEndsS = 2;  // after it has begun

std::string size_of(int64_t bytes) {
  return base::human_size(static_cast<uint64_t>(std::max<int64_t>(bytes, 0)));
}

std::string group_name(const MemoryUsers& users) {
  return users.group.empty() ? tr("the host") : tr("control group {}", base::sanitize(users.group));
}

bool is_much(int64_t bytes, const MemoryUsers& users) {
  return bytes >= kLeast && static_cast<double>(bytes) >= kMuchOfAll * static_cast<double>(users.used_bytes);
}

std::string process_words(const MemoryUser& user) {
  return user.command.empty() ? tr("pid {}", user.pid)
                              : tr("{} (pid {})", base::sanitize(user.command), user.pid);
}

std::vector<const MemoryUser*> with_role(const MemoryUsers& users, UserRole role) {
  std::vector<const MemoryUser*> out;
  for (const MemoryUser& user : users.users) {
    if (user.role == role) {
      out.push_back(&user);
    }
  }
  return out;
}

int64_t sum_of(const std::vector<const MemoryUser*>& users, int64_t MemoryUser::*what) {
  int64_t out = 0;
  for (const MemoryUser* user : users) {
    out += user->*what;
  }
  return out;
}

// "python sidecar.py (pid 1481) 274 MiB, ...": the first ones.
std::string named(const std::vector<const MemoryUser*>& users) {
  std::vector<std::string> out;
  for (size_t i = 0; i < std::min(users.size(), kMostNamed); ++i) {
    out.push_back(tr("{} {}", process_words(*users[i]), size_of(users[i]->bytes)));
  }
  return base::join(out, tr(", "));
}

std::string command_for(const std::vector<const MemoryUser*>& users) {
  std::vector<std::string> pids;
  for (const MemoryUser* user : users) {
    pids.push_back(std::to_string(user->pid));
  }
  return fmt::format("ps -o pid,ppid,rss,args -p {}", base::join(pids, ","));
}

MemoryFiller by_others(const MemoryUsers& users, const model::HeldMemory& line) {
  auto others = with_role(users, UserRole::other);
  std::erase_if(others, [](const MemoryUser* user) { return user->bytes < kLeastTold; });
  const int64_t bytes = sum_of(others, &MemoryUser::bytes);
  // A line that grows ends the rank sooner or later, whoever else is there.
  const bool line_grows = line.grown_a_step > 0 && 2 * sum_of(others, &MemoryUser::grown) < line.bytes;
  if (!is_much(bytes, users) || bytes <= line.bytes || line_grows) {
    return {};
  }
  const std::string limit = size_of(users.limit_bytes);
  const std::string who = named(others);
  MemoryFiller out{.bytes = bytes, .foreign = true};
  if (others.size() == 1) {
    out.words = tr("; {}, which is no rank, held {} of the {} of {}", process_words(*others.front()),
                   size_of(bytes), limit, group_name(users));
    out.title = tr("ran out of memory beside {} with {}", process_words(*others.front()), size_of(bytes));
  } else {
    out.words = tr("; {} processes that are no ranks held {} of the {} of {}: {}", others.size(),
                   size_of(bytes), limit, group_name(users), who);
    out.title =
        tr("ran out of memory beside {} processes that are no ranks, with {}", others.size(), size_of(bytes));
  }
  out.next = {.text = tr("end these processes, or run them outside of the job's container, and look at how "
                         "much memory they need"),
              .command = command_for(others)};
  return out;
}

// Programs that a rank has started, as opposed to its forks and the workers of its data loader.
MemoryFiller by_programs(const MemoryUsers& users, const model::HeldMemory& line) {
  MemoryFiller most;
  for (const MemoryUser* rank : with_role(users, UserRole::rank)) {
    auto programs = with_role(users, UserRole::child);
    std::erase_if(programs, [&](const MemoryUser* user) {
      return user->rank != rank->rank || user->command == rank->command || user->bytes < kLeastTold;
    });
    const int64_t bytes = sum_of(programs, &MemoryUser::bytes);
    // A line that holds more than the rank itself is one of these programs.
    const int64_t own = std::max(rank->bytes, line.bytes > rank->bytes ? 0 : line.bytes);
    if (!is_much(bytes, users) || bytes <= std::max(own, most.bytes)) {
      continue;
    }
    const std::string limit = size_of(users.limit_bytes);
    const std::string who = named(programs);
    most = {.bytes = bytes, .rank = rank->rank, .foreign = true};
    most.words = programs.size() == 1
                     ? tr("; a process that rank {} has started held {} of the {} of {}: {}", rank->rank,
                          size_of(bytes), limit, group_name(users), process_words(*programs.front()))
                     : tr("; {} processes that rank {} has started held {} of the {} of {}: {}",
                          programs.size(), rank->rank, size_of(bytes), limit, group_name(users), who);
    most.title = tr("ran out of memory beside the processes that rank {} has started, with {}", rank->rank,
                    size_of(bytes));
    most.next = {.text = tr("end the processes that are not needed, start fewer, or raise the memory limit"),
                 .command = command_for(programs)};
  }
  return most;
}

// "74 files /stage/shard-*"
std::string mapped_words(const MappedMemory& mapped, bool in_title = false) {
  if (mapped.name.starts_with("/dev/zero")) {
    return tr("anonymous shared memory");
  }
  const std::string name = base::sanitize(in_title ? base::base_name(mapped.name) : mapped.name);
  return mapped.count == 1 ? name : tr("{} files {}", mapped.count, name);
}

// For a shell, which fills in the stars only.
std::string quoted_pattern(std::string_view name) {
  std::string out;
  for (const std::string_view part : base::split(name, '*')) {
    out += (out.empty() ? "" : "*") + (part.empty() ? std::string() : base::shell_quote(part));
  }
  return out;
}

bool is_segment(const MappedMemory& mapped) {
  constexpr std::string_view kSegments[] = {"/dev/shm/", "/memfd:", "/SYSV", "/dev/zero"};
  return std::any_of(std::begin(kSegments), std::end(kSegments),
                     [&](std::string_view name) { return mapped.name.starts_with(name); });
}

// The rank that has written most of these bytes, and far more than the others. kNoRank: none has.
base::Rank writer_of(const model::MachineHistory& machine, int64_t bytes) {
  base::Rank writer = base::kNoRank;
  double most = 0;
  double next = 0;
  for (const model::MachineSeries& s : machine.series) {
    const double written = s.fact == model::MachineFact::rank_written ? s.last : 0;
    if (written > most) {
      next = most;
      most = written;
      writer = s.rank;
    } else {
      next = std::max(next, written);
    }
  }
  return 2 * most >= static_cast<double>(bytes) && most >= 2 * next ? writer : base::kNoRank;
}

MemoryFiller by_shared(const model::MachineHistory& machine, const MemoryUsers& users,
                       const MappedMemory& mapped) {
  const base::Rank writer =
      mapped.rank == base::kNoRank && !is_segment(mapped) ? writer_of(machine, mapped.bytes) : base::kNoRank;
  MemoryFiller out{
      .bytes = mapped.bytes, .rank = mapped.rank == base::kNoRank ? writer : mapped.rank, .files = true};
  const std::string what = mapped_words(mapped);
  const std::string held = tr("; {} of the {} of {} were shared memory or files in memory: {}",
                              size_of(mapped.bytes), size_of(users.limit_bytes), group_name(users), what);
  out.words = writer != base::kNoRank        ? tr("{}, which rank {} has written", held, writer)
              : mapped.rank != base::kNoRank ? tr("{}, of rank {}", held, mapped.rank)
                                             : held;
  out.title = tr("ran out of memory with {} of shared memory ({})", size_of(mapped.bytes),
                 mapped_words(mapped, true));
  out.next =
      is_segment(mapped)
          ? model::NextStep{.text = tr("release the shared memory that is no longer needed (close and "
                                       "unlink, or delete the shared tensors)"),
                            .command = ""}
          : model::NextStep{.text = tr("remove the files that are no longer needed, or write them to a "
                                       "disk: a tmpfs keeps its files in memory"),
                            .command = "ls -l " + quoted_pattern(base::sanitize(mapped.name))};
  return out;
}

MemoryFiller by_changed(const MappedMemory& mapped) {
  MemoryFiller out{.bytes = mapped.bytes, .rank = mapped.rank, .files = true};
  const std::string name = mapped_words(mapped);
  out.words = mapped.rank == base::kNoRank
                  ? tr("; {} were changed pages of {}, which is mapped privately (copy on write)",
                       size_of(mapped.bytes), name)
                  : tr("; {} of rank {} were changed pages of {}, which it maps privately (copy on write)",
                       size_of(mapped.bytes), mapped.rank, name);
  out.title = tr("ran out of memory with {} of changed pages of {}", size_of(mapped.bytes),
                 mapped_words(mapped, true));
  out.next.text =
      tr("map the file for reading only (mode \"r\") and change copies of small parts: each page "
         "that is changed in a private map stays in memory until the map is closed");
  return out;
}

// Copies of one rank, or of all where each has some, as with data loaders.
struct Copies {
  int64_t bytes = 0;
  model::RankSet ranks;
};

Copies copies_in(const MemoryUsers& users) {
  constexpr double kMost = 0.7;  // of all, by one rank
  Copies all;
  const MemoryUser* most = nullptr;
  for (const MemoryUser& user : users.users) {
    if (user.rank != base::kNoRank && user.copied > 0) {
      all.bytes += user.copied;
      all.ranks.insert(user.rank);
      most = most == nullptr || user.copied > most->copied ? &user : most;
    }
  }
  if (most == nullptr || static_cast<double>(most->copied) < kMost * static_cast<double>(all.bytes)) {
    return all;
  }
  Copies one{.bytes = most->copied};
  one.ranks.insert(most->rank);
  return one;
}

MemoryFiller by_copies(const MemoryUsers& users, const model::HeldMemory& line) {
  const Copies copied = copies_in(users);
  if (!is_much(copied.bytes, users) || 2 * copied.bytes < line.bytes) {
    return {};
  }
  const auto children = std::count_if(users.users.begin(), users.users.end(), [&](const MemoryUser& user) {
    return user.role == UserRole::child && copied.ranks.contains(user.rank);
  });
  const bool one_rank = copied.ranks.size() == 1;
  MemoryFiller out{.bytes = copied.bytes, .rank = one_rank ? copied.ranks.lowest() : base::kNoRank};
  const std::string size = size_of(copied.bytes);
  const std::string who = rank_words(copied.ranks);
  const std::string copies =
      !one_rank ? tr("; {} were copies of pages that {} share with {} processes that they have forked", size,
                     who, children)
      : children < 2
          ? tr("; {} were copies of pages that {} shares with a process that it has forked", size, who)
          : tr("; {} were copies of pages that {} shares with {} processes that it has forked", size, who,
               children);
  out.words = line.present() ? tr("{}, allocated at {}", copies, place(line.where)) : copies;
  out.title = tr("ran out of memory with {} of copies in forked processes", size);
  out.next.text = tr(
      "keep the data in few large arrays (numpy, torch, Arrow) instead of many Python objects, or use fewer "
      "workers: a worker that reads an object changes its reference count, and gets a copy of its page");
  return out;
}

}  // namespace

const MemoryUsers* users_of_memory(const model::RunManifest& run, const model::MachineHistory& machine,
                                   const model::ProcessRecord& process, double until_s) {
  const base::Rank rank = process.rank;
  std::string group;
  for (const model::RankPlace& place : machine.places) {
    group = place.rank == rank ? place.memory_group : group;
  }
  // Whose group that of a launcher is, no rank says.
  const bool of_launcher = rank == base::kNoRank && (process.role == model::ProcessRole::agent ||
                                                     process.role == model::ProcessRole::other);
  const MemoryUsers* best = nullptr;
  for (const MemoryUsers& users : machine.memory) {
    const bool has = std::any_of(users.users.begin(), users.users.end(), [&](const MemoryUser& user) {
      return user.pid == process.pid || (rank != base::kNoRank && user.rank == rank);
    });
    const bool around =
        of_launcher || users.group.empty() || group == users.group || group.starts_with(users.group + "/");
    if ((has || around) && seconds_in(run, users.wall_ns) <= until_s + kLookEndsS &&
        (best == nullptr || users.group.size() > best->group.size())) {
      best = &users;
    }
  }
  return best;
}

MemoryFiller launcher_filler(const MemoryUsers& users, base::Pid launcher) {
  std::vector<const MemoryUser*> others;
  const MemoryUser* own = nullptr;
  for (const MemoryUser& user : users.users) {
    if (user.pid == launcher) {
      own = &user;
    } else if (user.bytes >= kLeastTold) {
      others.push_back(&user);
    }
  }
  const int64_t bytes = sum_of(others, &MemoryUser::bytes);
  const int64_t own_bytes = own == nullptr ? 0 : own->bytes;
  const std::string limit = size_of(users.limit_bytes);
  if (own_bytes >= bytes && is_much(own_bytes, users)) {
    MemoryFiller out{.bytes = own_bytes};
    out.words = tr("; it held {} of the {} of {}", size_of(own_bytes), limit, group_name(users));
    out.title = tr("ran out of memory with {} of its own", size_of(own_bytes));
    out.next.text =
        tr("look at what this process keeps: its memory counts against the limit of the whole job");
    return out;
  }
  if (!is_much(bytes, users)) {
    return {};
  }
  MemoryFiller out{.bytes = bytes};
  const std::string who = named(others);
  if (others.size() == 1) {
    out.words = tr("; {} held {} of the {} of {}", process_words(*others.front()), size_of(bytes), limit,
                   group_name(users));
  } else {
    out.words = tr("; {} processes held {} of the {} of {}: {}", others.size(), size_of(bytes), limit,
                   group_name(users), who);
  }
  out.title = tr("ran out of memory beside other processes with {}", size_of(bytes));
  out.next.text = tr("end the processes that are not needed, start fewer, or raise the memory limit");
  return out;
}

MemoryFiller memory_filler(const model::MachineHistory& machine, const MemoryUsers& users,
                           const model::HeldMemory& line) {
  std::vector<MemoryFiller> found{by_copies(users, line), by_others(users, line), by_programs(users, line)};
  for (const MappedMemory& mapped : users.mapped) {
    if (!is_much(mapped.bytes, users) || mapped.bytes <= line.bytes) {
      continue;
    }
    if (mapped.kind == MappedKind::shared) {
      found.push_back(by_shared(machine, users, mapped));
    } else if (mapped.kind == MappedKind::changed) {
      found.push_back(by_changed(mapped));
    }
  }
  return *std::max_element(found.begin(), found.end(),
                           [](const MemoryFiller& a, const MemoryFiller& b) { return a.bytes < b.bytes; });
}

std::vector<std::string> users_words(const MemoryUsers& users, UsersMoment moment) {
  std::vector<std::string> parts;
  std::map<base::Rank, std::pair<int64_t, int64_t>> children;  // bytes, processes
  for (const MemoryUser& user : users.users) {
    // Ranks in any case: their group is the one that was full.
    if (user.bytes < kLeastTold && user.role != UserRole::rank) {
      continue;
    }
    if (user.role == UserRole::rank) {
      parts.push_back(tr("rank {} {}", user.rank, size_of(user.bytes)));
    } else if (user.role == UserRole::other) {
      parts.push_back(tr("{} {}", process_words(user), size_of(user.bytes)));
    } else if (user.role == UserRole::child) {
      auto& [bytes, count] = children[user.rank];
      bytes += user.bytes;
      ++count;
    }
  }
  const size_t all = parts.size();
  parts.resize(std::min(parts.size(), kMostTold));
  for (const auto& [rank, sum] : children) {
    parts.push_back(sum.second == 1 ? tr("a child of rank {} {}", rank, size_of(sum.first))
                                    : tr("{} children of rank {} {}", sum.second, rank, size_of(sum.first)));
  }
  if (all > kMostTold) {
    parts.push_back(tr("and {} more", all - kMostTold));
  }
  std::vector<std::string> out;
  if (!parts.empty()) {
    const std::string used = size_of(users.used_bytes);
    const std::string limit = size_of(users.limit_bytes);
    const std::string who = base::join(parts, tr(", "));
    out.push_back(
        moment == UsersMoment::before_end
            ? tr("shortly before, {} held {} of its {}: {}", group_name(users), used, limit, who)
            : tr("when it was fullest, {} held {} of its {}: {}", group_name(users), used, limit, who));
  }
  parts.clear();
  for (const MappedMemory& mapped : users.mapped) {
    const std::string what = mapped_words(mapped);
    if (parts.size() < kMostNamed) {
      parts.push_back(mapped.kind == MappedKind::shared
                          ? tr("{} of shared memory in {}", size_of(mapped.bytes), what)
                      : mapped.kind == MappedKind::changed
                          ? tr("{} of privately changed pages of {}", size_of(mapped.bytes), what)
                          : tr("{} of changed pages of {}, not yet written", size_of(mapped.bytes), what));
    }
  }
  if (!parts.empty()) {
    out.push_back(tr("in it: {}", base::join(parts, tr(", "))));
  }
  return out;
}

}  // namespace xpurun::report
