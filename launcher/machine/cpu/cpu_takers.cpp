#include "launcher/machine/cpu/cpu_takers.h"

#include "common/base/strings.h"

#include <algorithm>
#include <array>
#include <tuple>

namespace xpurun::launcher {

using model::CpuRelation;
using model::Intruder;

namespace {

constexpr double kLeastTaken = 0.05;  // of the time of the rank's CPUs
// A host outside of this container always has some other process.
constexpr double kLeastUnseen = 0.2;
constexpr size_t kMostNamed = 500;
constexpr size_t kMostTakers = 4;
constexpr int kDeepest = 64;  // ancestors

}  // namespace

std::string control_group(std::string_view cgroup) {
  std::string out;
  for (const std::string_view line : base::split(cgroup, '\n')) {
    // "4:memory:/job", "0::/user.slice"
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos || line.substr(second + 1).size() < 2) {
      continue;
    }
    if (line.starts_with("0::")) {
      return std::string(line.substr(second + 1));
    }
    out = out.empty() ? std::string(line.substr(second + 1)) : out;
  }
  return out;
}

CpuTakers::CpuTakers(base::ProcFs proc, base::Pid job, const std::vector<WatchedRank>& ranks,
                     const CpuTimes& times)
    : proc_(std::move(proc)), job_(job), times_(times) {
  for (const WatchedRank& rank : ranks) {
    ranks_[rank.pid] = rank.rank;
  }
  for (const WatchedRank& rank : ranks) {
    base::Pid pid = parent_of(rank.pid);
    for (int depth = 0; depth < kDeepest && pid > 1 && ancestors_.insert(pid).second; ++depth) {
      pid = parent_of(pid);
    }
  }
}

base::Pid CpuTakers::parent_of(base::Pid pid) const {
  if (const auto stat = proc_.stat(pid)) {
    return stat->ppid;
  }
  const auto seen = times_.seen.find(pid);
  return seen == times_.seen.end() ? 0 : seen->second.parent;
}

// Ranks of another xpurun on this host, in the same rendezvous.
bool CpuTakers::same_job(base::Pid pid, base::Pid rank) const {
  const auto one = proc_.environ(rank);
  const auto other = proc_.environ(pid);
  const auto same = [&](const char* name) {
    const auto a = one.find(name);
    const auto b = other.find(name);
    return a != one.end() && b != other.end() && a->second == b->second;
  };
  return same("MASTER_ADDR") && same("MASTER_PORT");
}

CpuTakers::Name CpuTakers::name_of(base::Pid pid, const Rank& rank) const {
  Name out;
  const auto stat = proc_.stat(pid);
  const auto seen = times_.seen.find(pid);
  out.command = base::sanitize(stat ? stat->comm : seen == times_.seen.end() ? "" : seen->second.command);
  out.known = stat || (seen != times_.seen.end() && seen->second.parent > 0);
  out.group = base::sanitize(control_group(proc_.text(pid, "cgroup")));
  base::Pid at = pid;
  for (int depth = 0; depth < kDeepest && at > 1; ++depth) {
    const auto of_rank = ranks_.find(at);
    if (at == rank.pid) {
      out.relation = CpuRelation::own;
      return out;
    }
    if (of_rank != ranks_.end()) {
      out.relation = CpuRelation::other_rank;
      out.owner = of_rank->second;
      return out;
    }
    if (at == job_) {
      out.relation = CpuRelation::job;
      return out;
    }
    at = parent_of(at);
  }
  if (ancestors_.count(pid) > 0 || same_job(pid, rank.pid)) {
    out.relation = CpuRelation::job;
  }
  return out;
}

std::vector<Intruder> CpuTakers::of(const Rank& rank) {
  const double all_s = rank.watched_s * static_cast<double>(rank.cpus.size());
  std::vector<std::pair<double, base::Pid>> by_time;
  for (const auto& [pid, cpus] : times_.seconds) {
    const double taken = times_.on(pid, rank.cpus);
    if (pid != rank.pid && taken > 0) {
      by_time.emplace_back(taken, pid);
    }
  }
  std::sort(by_time.rbegin(), by_time.rend());
  by_time.resize(std::min(by_time.size(), kMostNamed));
  using Key = std::tuple<CpuRelation, base::Rank, std::string, std::string>;
  std::map<Key, Intruder> together;
  for (const auto& [taken, pid] : by_time) {
    const Name name = name_of(pid, rank);
    if (!name.known) {
      continue;
    }
    // The first one has the most time, and names the others.
    const auto [it, first] = together.try_emplace(Key(name.relation, name.owner, name.command, name.group),
                                                  Intruder{.rank = rank.rank,
                                                           .relation = name.relation,
                                                           .owner = name.owner,
                                                           .pid = pid,
                                                           .command = name.command,
                                                           .group = name.group,
                                                           .cpu_s = taken});
    if (!first) {
      ++it->second.processes;
      it->second.cpu_s += taken;
    }
  }
  std::vector<Intruder> out;
  for (auto& [key, one] : together) {
    if (one.cpu_s >= kLeastTaken * all_s) {
      out.push_back(std::move(one));
    }
  }
  if (rank.unseen_s >= kLeastUnseen * all_s) {
    out.push_back({.rank = rank.rank, .relation = CpuRelation::unseen, .cpu_s = rank.unseen_s});
  }
  std::sort(out.begin(), out.end(), [](const Intruder& a, const Intruder& b) { return a.cpu_s > b.cpu_s; });
  out.resize(std::min(out.size(), kMostTakers));
  for (Intruder& one : out) {
    one.cpus = static_cast<int>(rank.cpus.size());
    one.watched_s = rank.watched_s;
    one.ready_s = rank.ready_s;
  }
  return out;
}

}  // namespace xpurun::launcher
