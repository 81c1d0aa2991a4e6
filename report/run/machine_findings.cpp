#include "report/run/machine_findings.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/memory/memory_users_words.h"
#include "report/diagnosis/rules/machine_words.h"
#include "report/diagnosis/rules/placement.h"
#include "report/diagnosis/wording.h"
#include "report/run/gpu_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

namespace xpurun::report {

using base::later;
using base::tr;
using model::MachineFact;
using model::MachineHistory;
using model::MachineSeries;
using model::MachineSpell;

namespace {

constexpr size_t kMostObjects = 4;
// A link that recovers again and again fails sooner or later.
constexpr int64_t kAgain = 3;

Advice advice_of(MachineFact fact) {
  switch (fact) {
    case MachineFact::link_downed:
    case MachineFact::port_down:
      return {Severity::warning, later("check cable, transceiver and switch port"), "ibstat"};
    case MachineFact::link_recoveries:
    case MachineFact::symbol_errors:
    case MachineFact::receive_errors:
      return {Severity::warning, later("have cable and transceiver checked before the link fails"), "ibstat"};
    case MachineFact::retransmissions:
      return {Severity::warning, later("check the flow control (PFC, ECN) of adapter and switch"),
              "rdma statistic"};
    case MachineFact::carrier_changes:
    case MachineFact::packet_errors:
      return {Severity::warning, later("check cable, transceiver and switch port"), "ip -s link"};
    case MachineFact::packets_dropped:
    case MachineFact::port_discards:
      return {Severity::note, later("raise the sizes of the adapter's rings"), "ethtool -g"};
    case MachineFact::paused:
      return {Severity::warning, later("check the flow control (PFC, ECN) of adapter and switch"),
              "ethtool -S"};
    case MachineFact::pcie_corrected:
    case MachineFact::pcie_uncorrected:
    case MachineFact::pcie_narrow:
    case MachineFact::pcie_slow:
      return {fact == MachineFact::pcie_uncorrected ? Severity::warning : Severity::note,
              later("have the device's seat and slot checked"), "lspci -vv"};
    case MachineFact::cpu_throttled:
      return {Severity::warning, later("check the cooling of the host"), ""};
    case MachineFact::cpu_limited:
      return {Severity::note, later("set the governor to performance"),
              "cpupower frequency-set -g performance"};
    case MachineFact::cpu_pressure:
      return {Severity::note, later("give the job more CPUs, or fewer threads"), ""};
    case MachineFact::memory_pressure:
    case MachineFact::oom_kills:
      return {Severity::warning, later("give the job more memory, or fewer loader processes"), ""};
    case MachineFact::io_pressure:
    case MachineFact::storage_wait:
      return {Severity::warning, later("read from a faster file system, or with more loader processes"), ""};
    case MachineFact::interrupts:
      return {Severity::warning,
              later("spread the interrupts over more CPUs, or away from those of the ranks"),
              "cat /proc/interrupts"};
    case MachineFact::no_cpu:
      return {Severity::warning,
              later("keep other work off the CPUs of the ranks (a cpuset, taskset, Slurm's --exclusive)"),
              ""};
    case MachineFact::throttled:
      return {Severity::warning,
              later("raise the CPU limit of the container (limits.cpu, cpu.max), or start "
                    "fewer threads"),
              ""};
    case MachineFact::stolen:
      return {Severity::warning, later("use a virtual machine with CPUs of its own"), ""};
    case MachineFact::space:
    case MachineFact::inodes:
      return {Severity::warning, later("remove files, or write elsewhere, before the next checkpoint"),
              "df -h; df -i"};
    case MachineFact::mount_silent:
      return {Severity::error, later("check whether the server of the file system answers"), ""};
    case MachineFact::congestion:
    case MachineFact::pause_frames:
    case MachineFact::tcp_retransmissions:
    case MachineFact::tcp_segments:
    case MachineFact::rank_read:
    case MachineFact::rank_written:
    case MachineFact::rank_io_calls:
    case MachineFact::rank_page_faults:
    case MachineFact::memory_limit:
    case MachineFact::mount_read:
    case MachineFact::mount_written:
    case MachineFact::mount_operations:
    case MachineFact::mount_time:
      break;
    default:
      return gpu_advice(fact);
  }
  return {};
}

// One object of one fact.
struct Item {
  std::string words;
  double since_s = 0;
  int64_t times = 0;
  double amount = 0;
  base::Pid intruder = 0;           // who had the CPUs of a rank; 0: nobody, or not known
  std::vector<std::string> others;  // who had much of them beside it
};

// Strangers that had much of the CPUs of the rank beside the main one.
std::vector<std::string> other_intruders(const MachineHistory& machine, base::Rank rank,
                                         const model::Intruder* main) {
  constexpr double kMuch = 0.2;
  std::vector<std::string> out;
  for (const model::Intruder& one : machine.intruders) {
    if (one.rank == rank && &one != main && is_stranger(one) && one.share() >= kMuch) {
      out.push_back(tr("{} had {:.0f} % of the CPUs of rank {}", intruder_words(one),
                       std::min(100 * one.share(), 100.0), rank));
    }
  }
  return out;
}

Item item_of(const RunReport& report, size_t node, const MachineSeries& s,
             const std::vector<MachineSpell>& spells) {
  const bool events = unit_of(s.fact) == model::MachineUnit::events;
  Item out{.since_s = std::max(0.0, seconds_in(report.run, spells.front().begin_wall_ns)), .times = s.times};
  for (const MachineSpell& spell : spells) {
    out.amount = events ? out.amount + spell.amount : std::max(out.amount, spell.amount);
  }
  out.words = on_host(report.run, node) + machine_words(report.machines[node], s, out.amount);
  if (s.fact == MachineFact::no_cpu) {
    const model::Intruder* intruder = main_intruder(report.machines[node], s.rank);
    out.intruder = intruder == nullptr ? 0 : intruder->pid;
    out.others = other_intruders(report.machines[node], s.rank, intruder);
  }
  return out;
}

// Who had the memory when it was fullest.
void add_users(const RunReport& report, std::vector<std::string>& out) {
  for (const MachineHistory& machine : report.machines) {
    for (const model::MemoryUsers& users : machine.memory) {
      for (std::string& words : users_words(users, UsersMoment::fullest)) {
        out.push_back(std::move(words));
      }
    }
  }
}

void add_facts(const RunReport& report, std::vector<Finding>& out) {
  std::map<MachineFact, std::vector<Item>> by_fact;
  for (size_t node = 0; node < report.machines.size(); ++node) {
    for (const MachineSeries& s : report.machines[node].series) {
      if (const auto spells = telling_spells(report.machines[node], s); !spells.empty()) {
        by_fact[s.fact].push_back(item_of(report, node, s, spells));
      }
    }
  }
  for (auto& [fact, items] : by_fact) {
    std::stable_sort(items.begin(), items.end(),
                     [](const Item& a, const Item& b) { return a.amount > b.amount; });
    const Advice advice = advice_of(fact);
    const Item& worst = items.front();
    const bool again = unit_of(fact) == model::MachineUnit::events && worst.times >= kAgain;
    Finding f{.severity = advice.severity,
              .id = fmt::format("machine.{}", model::name_of(fact)),
              .title = again ? tr("{}, again and again", worst.words) : worst.words};
    for (size_t i = 0; i < std::min(items.size(), kMostObjects); ++i) {
      const std::string since = moment_words(report.run, items[i].since_s);
      f.evidence.push_back(i == 0 ? tr("first seen {}", since)
                                  : tr("{}, first seen {}", items[i].words, since));
      f.evidence.insert(f.evidence.end(), items[i].others.begin(), items[i].others.end());
    }
    if (items.size() > kMostObjects) {
      f.evidence.push_back(tr("and {} more", items.size() - kMostObjects));
    }
    if (fact == MachineFact::oom_kills) {
      add_users(report, f.evidence);
    }
    f.next = advice.next.empty() ? std::string() : tr(advice.next);
    f.command = worst.intruder > 0 ? fmt::format("ps -fp {}", worst.intruder) : std::string(advice.command);
    out.push_back(std::move(f));
  }
}

void add_tcp(const RunReport& report, std::vector<Finding>& out) {
  for (size_t node = 0; node < report.machines.size(); ++node) {
    if (const double share = tcp_loss(report.machines[node]); share > 0) {
      out.push_back({.severity = Severity::warning,
                     .id = "machine.tcp_retransmissions",
                     .title = on_host(report.run, node) +
                              tr("{:.1f} % of the TCP segments were sent again", 100 * share),
                     .next = tr("check cable, transceiver and switch port"),
                     .command = "nstat -az TcpRetransSegs"});
    }
  }
}

void add_placements(const MachineHistory& machine, std::vector<Finding>& out) {
  for (Placement& p : placements(machine)) {
    out.push_back({.severity = Severity::warning,
                   .id = std::string(p.id),
                   .title = std::move(p.title),
                   .evidence = std::move(p.evidence),
                   .next = std::move(p.next),
                   .command = std::string(p.command)});
  }
}

}  // namespace

void add_machine_findings(const RunReport& report, std::vector<Finding>& out) {
  add_facts(report, out);
  add_gpu_findings(report, out);
  add_tcp(report, out);
  for (const MachineHistory& machine : report.machines) {
    add_placements(machine, out);
  }
}

}  // namespace xpurun::report
