#include "report/run/machine_findings.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/rules/machine_words.h"
#include "report/diagnosis/wording.h"
#include "report/run/gpu_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

namespace xpurun::report {

using base::later;
using base::tr;
using model::MachineFact;
using model::MachineHistory;
using model::MachineSeries;
using model::MachineSpell;
using model::RankPlace;

namespace {

constexpr size_t kMostObjects = 4;
// A link that recovers again and again fails sooner or later.
constexpr int64_t kAgain = 3;
constexpr uint64_t kLeastCrowded = 3;  // readings

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
  base::Pid intruder = 0;  // who had the CPUs of a rank; 0: nobody, or not known
};

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
  }
  return out;
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
    }
    if (items.size() > kMostObjects) {
      f.evidence.push_back(tr("and {} more", items.size() - kMostObjects));
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

std::set<int> set_of(std::string_view cpus) {
  const std::vector<int> list = model::cpus_in(cpus);
  return {list.begin(), list.end()};
}

bool share_any(const std::set<int>& a, const std::set<int>& b) {
  return std::any_of(a.begin(), a.end(), [&](int cpu) { return b.count(cpu) > 0; });
}

void add_threads(const MachineHistory& machine, std::vector<Finding>& out) {
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
    out.push_back({.severity = Severity::warning,
                   .id = "cpu.omp_threads",
                   .title = tr("OMP_NUM_THREADS asks for more threads ({}) than CPUs are allowed ({})",
                               threads, all.size()),
                   .evidence = {tr("{}: {} threads together", rank_words(ranks), threads)},
                   .next = tr("set OMP_NUM_THREADS to {} or less",
                              std::max<size_t>(1, all.size() / std::max<size_t>(1, ranks.size())))});
  }
  if (!crowded.empty()) {
    out.push_back(
        {.severity = Severity::warning,
         .id = "cpu.crowded",
         .title = tr("{}: more threads want to run than CPUs are allowed", rank_words(crowded)),
         .next = tr("allow the ranks more CPUs (cpuset, taskset, --cpus-per-task), or use fewer threads")});
  }
}

void add_pinning(const MachineHistory& machine, std::vector<Finding>& out) {
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
        if (lines.size() < kMostObjects) {
          lines.push_back(tr("rank {} may use CPUs {}; those near {} are {}", p.rank, p.cpus, device, cpus));
        }
      }
    }
  }
  for (const auto& [core, ranks] : on_core) {
    if (ranks.size() > 1) {
      out.push_back({.severity = Severity::warning,
                     .id = "cpu.shared_core",
                     .title = tr("{} are pinned to one CPU, number {}", rank_words(ranks), core),
                     .next = tr("give each rank CPUs of its own (taskset, numactl, --cpu-bind)")});
      break;  // one mistake, many cores
    }
  }
  if (!away.empty()) {
    out.push_back({.severity = Severity::warning,
                   .id = "cpu.far_device",
                   .title = tr("{}: the CPUs are on another NUMA node than the device", rank_words(away)),
                   .evidence = std::move(lines),
                   .next = tr("bind each rank to the NUMA node of its GPU (numactl, --cpu-bind)"),
                   .command = "nvidia-smi topo -m"});
  }
}

}  // namespace

void add_machine_findings(const RunReport& report, std::vector<Finding>& out) {
  add_facts(report, out);
  add_gpu_findings(report, out);
  add_tcp(report, out);
  for (const MachineHistory& machine : report.machines) {
    add_threads(machine, out);
    add_pinning(machine, out);
  }
}

}  // namespace xpurun::report
