#include "launcher/machine/cpu/cpu_watch.h"

#include "common/base/os/io.h"
#include "launcher/machine/cpu/cpu_takers.h"
#include "launcher/os/cpu_ticks.h"

#include <algorithm>
#include <ctime>
#include <utility>

namespace xpurun::launcher {

namespace {

constexpr int kCalmMs = 2000;
constexpr int kWindowMs = 100;
constexpr double kBetweenDelaysS = 1.5;
constexpr double kStarved = 0.1;  // of the time ready without a CPU
constexpr double kLongestPauseS = 60;
// The number of the first PID namespace, include/linux/proc_ns.h: there every process is seen.
constexpr std::string_view kFirstNamespace = "pid:[4026531836]";
constexpr double kBusy = 0.5;

double own_cpu_s() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

std::string stat_of(const base::ProcFs& proc) {
  return base::read_file(proc.root() + "/stat").value_or("");
}

std::set<int> numbers(const std::string& cpus) {
  const std::vector<int> list = model::cpus_in(cpus);
  return {list.begin(), list.end()};
}

// The processes that are running on these CPUs at the moment, by CPU.
std::map<int, base::Pid> running_on(const base::ProcFs& proc, const std::set<int>& cpus) {
  std::map<int, base::Pid> out;
  for (const base::Pid pid : proc.processes()) {
    const auto stat = proc.stat(pid);
    const std::vector<base::Tid> threads =
        stat && stat->num_threads > 1 ? proc.threads(pid) : std::vector<base::Tid>{pid};
    for (const base::Tid tid : threads) {
      const auto thread = tid == pid && stat ? stat : proc.thread_stat(pid, tid);
      if (thread && thread->state == 'R' && cpus.count(thread->processor) > 0) {
        out[thread->processor] = pid;
      }
    }
  }
  return out;
}

// A CPU whose only thread never gives it away has no switch to record.
void add_silent(const base::ProcFs& proc, const std::map<int, double>& busy_s, double window_s,
                CpuTimes& times) {
  std::set<int> silent;
  for (const auto& [cpu, seconds] : busy_s) {
    if (seconds >= kBusy * window_s) {
      silent.insert(cpu);
    }
  }
  for (const auto& [pid, cpus] : times.seconds) {
    for (const auto& [cpu, seconds] : cpus) {
      silent.erase(cpu);
    }
  }
  if (!silent.empty()) {
    for (const auto& [cpu, pid] : running_on(proc, silent)) {
      times.seconds[pid][cpu] = busy_s.at(cpu);
    }
  }
}

}  // namespace

int CpuWatch::turn(const base::ProcFs& proc, const std::vector<WatchedRank>& ranks, base::MonoNs now) {
  if (ranks.empty() && !window_) {
    return kCalmMs;
  }
  if (window_) {
    if (window_->switches) {
      window_->switches->drain(proc);
    } else {
      window_->looks->look(now, setup_.window_ns / 2);
    }
    if (now - window_->begin >= setup_.window_ns) {
      close(proc, ranks, now);
    }
  } else if (looked_at_ == 0 || base::ns_to_s(now - looked_at_) >= kBetweenDelaysS) {
    look_at_delays(proc, ranks, now);
    const bool starved =
        std::any_of(ranks_.begin(), ranks_.end(), [](const auto& r) { return r.second.share >= kStarved; });
    if (starved && now >= next_window_) {
      open(proc, now);
    }
  }
  return window_ ? kWindowMs : kCalmMs;
}

void CpuWatch::look_at_delays(const base::ProcFs& proc, const std::vector<WatchedRank>& ranks,
                              base::MonoNs now) {
  const base::MonoNs since = now - looked_at_;
  std::set<base::Rank> present;
  for (const WatchedRank& rank : ranks) {
    present.insert(rank.rank);
    const auto known = ranks_.find(rank.rank);
    if (known == ranks_.end() || known->second.pid != rank.pid) {
      const double before = known == ranks_.end() ? 0 : known->second.ready_s;
      ranks_.insert_or_assign(rank.rank, Watched{.pid = rank.pid,
                                                 .delay = RunDelay(rank.pid, proc),
                                                 .throttled = ThrottledCpu(rank.pid, proc),
                                                 .cpus = {},
                                                 .ready_s = before});
    }
    Watched& w = ranks_.at(rank.rank);
    const auto look = w.delay.look();
    // A thread that the limit holds is ready to run, but nobody takes its CPU.
    const int64_t throttled = w.throttled.sample(now);
    const int64_t limited = std::max<int64_t>(throttled - std::max<int64_t>(w.throttled_ns, 0), 0);
    w.throttled_ns = throttled;
    // A wait for a CPU is counted when it ends, so it may be longer than the time between two looks.
    const base::MonoNs ready =
        look && looked_at_ > 0 ? std::clamp<base::MonoNs>(look->worst_ns - limited, 0, since) : 0;
    w.share = since > 0 ? static_cast<double>(ready) / static_cast<double>(since) : 0;
    w.ready_s += base::ns_to_s(ready);
    if (w.cpus.empty() || w.share >= kStarved) {
      w.cpus = allowed_cpus(proc, rank.pid);
    }
  }
  std::erase_if(ranks_, [&](const auto& r) { return present.count(r.first) == 0; });
  looked_at_ = now;
}

void CpuWatch::open(const base::ProcFs& proc, base::MonoNs now) {
  Window window{
      .begin = now, .cpu_begin_s = own_cpu_s(), .switches = {}, .looks = {}, .busy = {}, .ranks = {}};
  std::set<int> cpus;
  for (const auto& [rank, w] : ranks_) {
    if (w.share >= kStarved) {
      window.ranks.insert(rank);
      cpus.merge(numbers(w.cpus));
    }
  }
  window.busy = busy_ticks_in(stat_of(proc));
  if (setup_.switches) {
    auto switches = CpuSwitches::open({cpus.begin(), cpus.end()}, now);
    if (switches) {
      window.switches.emplace(std::move(*switches));
    } else {
      setup_.switches = false;  // refused once, refused again
    }
  }
  if (!window.switches) {
    window.looks.emplace(proc, now);
  }
  window_.emplace(std::move(window));
}

void CpuWatch::close(const base::ProcFs& proc, const std::vector<WatchedRank>& ranks, base::MonoNs now) {
  const Window window = std::move(*window_);
  window_.reset();
  look_at_delays(proc, ranks, now);
  const double window_s = base::ns_to_s(now - window.begin);
  const double watched_s = window.switches ? window_s : window.looks->covered_s(now);
  std::map<int, double> busy_s;
  for (const auto& [cpu, ticks] : busy_ticks_in(stat_of(proc))) {
    const auto before = window.busy.find(cpu);
    const bool grown = before != window.busy.end() && ticks > before->second;
    busy_s[cpu] = grown ? base::ticks_to_s(ticks - before->second) : 0;
  }
  CpuTimes times = window.switches ? window.switches->times(now) : window.looks->times();
  if (window.switches) {
    add_silent(proc, busy_s, window_s, times);
  }
  const bool sees_all = base::read_link(proc.root() + "/self/ns/pid").value_or("") == kFirstNamespace;
  CpuTakers takers(proc, setup_.job, ranks, times);
  for (const auto& [rank, w] : ranks_) {
    const std::set<int> cpus = numbers(w.cpus);
    if (watched_s <= 0 || cpus.empty() || (window.ranks.count(rank) == 0 && w.share < kStarved)) {
      continue;
    }
    double unseen = 0;
    for (const int cpu : cpus) {
      const auto busy = busy_s.find(cpu);
      unseen += busy == busy_s.end() ? 0 : busy->second * watched_s / window_s;
    }
    for (const auto& [pid, by_cpu] : times.seconds) {
      unseen -= times.on(pid, cpus);
    }
    const auto found = takers.of({.rank = rank,
                                  .pid = w.pid,
                                  .cpus = cpus,
                                  .watched_s = watched_s,
                                  .ready_s = w.share * watched_s,
                                  .unseen_s = sees_all ? 0 : unseen});
    intruders_.insert(intruders_.end(), found.begin(), found.end());
  }
  const double cost = own_cpu_s() - window.cpu_begin_s;
  const double allowed = setup_.budget * static_cast<double>(std::max<size_t>(ranks_.size(), 1));
  next_window_ = now + base::s_to_ns(std::min(cost / allowed, kLongestPauseS));
}

void CpuWatch::read(model::MachineReading& out) {
  for (const auto& [rank, w] : ranks_) {
    if (!w.cpus.empty()) {
      out.values.push_back({.fact = model::MachineFact::no_cpu,
                            .object = "cpus " + w.cpus,
                            .value = w.ready_s * 1e6,
                            .detail = {},
                            .rank = rank});
    }
    if (w.throttled_ns >= 0) {
      out.values.push_back({.fact = model::MachineFact::throttled,
                            .object = {},
                            .value = static_cast<double>(w.throttled_ns) / 1000,
                            .detail = {},
                            .rank = rank});
    }
  }
  out.intruders = std::exchange(intruders_, {});
}

std::optional<base::Error> switches_refused() {
  const auto opened = CpuSwitches::open({0}, base::mono_ns());
  return opened ? std::nullopt : std::optional(opened.error());
}

}  // namespace xpurun::launcher
