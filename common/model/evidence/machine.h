// MachineHistory: machine.json in the run directory, schema "xpurun.machine/1": what the kernel counts about
// the host below a job (links, file systems, pressure, interrupts), read every few seconds while the job
// runs. Only what passed its limit is kept with its times: a run of days stays small.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/model/evidence/host_use.h"
#include "common/model/evidence/memory_users.h"
#include "common/model/names.h"

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

inline constexpr std::string_view kMachineSchema = "xpurun.machine/1";
inline constexpr std::string_view kMachineFile = "machine.json";

enum class MachineFact {
  // Counters of events, since the driver was loaded.
  link_downed,          // InfiniBand, of one port: "mlx5_0/1"
  link_recoveries,      //
  symbol_errors,        //
  receive_errors,       //
  retransmissions,      // RoCE
  congestion,           // RoCE: notifications handled
  carrier_changes,      // network interface: "eth0"
  packet_errors,        //
  packets_dropped,      //
  tcp_retransmissions,  // of the host
  tcp_segments,         // sent, the measure of those above; no fact by itself
  pcie_corrected,       // PCI device: "0000:3b:00.0 (mlx5_0)"
  pcie_uncorrected,     //
  cpu_throttled,        // by heat, package: "package 0"
  // Totals that are no facts by themselves, in bytes and calls.
  rank_read,         // by `rank`, from files, pipes and the page cache
  rank_written,      //
  rank_io_calls,     // read and write calls
  rank_page_faults,  // pages that the rank had to wait for, because they were not in memory
  mount_read,        // from the server of a network file system: "/data"
  mount_written,     // to the server
  mount_operations,  // requests to the server
  // Counters of time in microseconds; the fact is the share of the time between two readings.
  cpu_pressure,     // all threads of a control group, or some of the "host", wait for a CPU
  memory_pressure,  // all threads wait for memory
  io_pressure,      // all threads wait for a disk
  interrupts,       // one CPU handles interrupts: "cpu 3"
  stolen,           // the hypervisor has taken CPUs: "host"
  no_cpu,           // a thread of `rank` is ready to run and has none of its CPUs: "cpus 2-3"
  throttled,        // the CPU limit of its control groups keeps `rank` from running
  storage_wait,     // a process of `rank` is inside a call to a file system: "/data"
  mount_time,       // of all these requests together, from the call to the answer; no fact by itself
  // Levels from 0 to 1.
  space,   // of a file system that is used: "/data"
  inodes,  //
  // 1 while it holds.
  pcie_narrow,   // fewer lanes than device and slot have
  pcie_slow,     // a lower speed than device and slot have
  port_down,     // InfiniBand
  mount_silent,  // a question for the free space has had no answer for seconds: "/data"
  cpu_limited,   // the highest frequency is set below what the CPU can do, or the governor saves power
  // By ethtool, of a network interface: frames that ask to pause (no fact by itself), the time of these
  // pauses in microseconds, packets that the port had no room for.
  pause_frames,
  paused,
  port_discards,
  // Of a GPU, by NVML, kept in gpu-health.json. Counters of events of "GPU 3", its links "GPU 3 NVLink 5".
  nvlink_recoveries,
  nvlink_replays,
  nvlink_crc,
  gpu_pcie_replays,
  ecc_corrected,
  ecc_uncorrected,
  rows_remapped,
  pages_retired,
  xid,  // "GPU 3 Xid 79"
  // 1 while it holds.
  nvlink_down,    // and the same link of most other GPUs is up, or this link was up before
  remap_pending,  // the next reset replaces damaged rows or pages
  remap_failed,   // no spare rows are left
  gpu_slowed,     // by heat or power, not by its power limit
  gpu_lost,
  oom_kills,     // processes that the kernel killed for lack of memory, of a control group: "/job"
  memory_limit,  // times that a control group was at its limit, and the kernel took memory back
};
template <>
inline constexpr std::array<std::string_view, 56> kNames<MachineFact> = {"link_downed",
                                                                         "link_recoveries",
                                                                         "symbol_errors",
                                                                         "receive_errors",
                                                                         "retransmissions",
                                                                         "congestion",
                                                                         "carrier_changes",
                                                                         "packet_errors",
                                                                         "packets_dropped",
                                                                         "tcp_retransmissions",
                                                                         "tcp_segments",
                                                                         "pcie_corrected",
                                                                         "pcie_uncorrected",
                                                                         "cpu_throttled",
                                                                         "rank_read",
                                                                         "rank_written",
                                                                         "rank_io_calls",
                                                                         "rank_page_faults",
                                                                         "mount_read",
                                                                         "mount_written",
                                                                         "mount_operations",
                                                                         "cpu_pressure",
                                                                         "memory_pressure",
                                                                         "io_pressure",
                                                                         "interrupts",
                                                                         "stolen",
                                                                         "no_cpu",
                                                                         "throttled",
                                                                         "storage_wait",
                                                                         "mount_time",
                                                                         "space",
                                                                         "inodes",
                                                                         "pcie_narrow",
                                                                         "pcie_slow",
                                                                         "port_down",
                                                                         "mount_silent",
                                                                         "cpu_limited",
                                                                         "pause_frames",
                                                                         "paused",
                                                                         "port_discards",
                                                                         "nvlink_recoveries",
                                                                         "nvlink_replays",
                                                                         "nvlink_crc",
                                                                         "gpu_pcie_replays",
                                                                         "ecc_corrected",
                                                                         "ecc_uncorrected",
                                                                         "rows_remapped",
                                                                         "pages_retired",
                                                                         "xid",
                                                                         "nvlink_down",
                                                                         "remap_pending",
                                                                         "remap_failed",
                                                                         "gpu_slowed",
                                                                         "gpu_lost",
                                                                         "oom_kills",
                                                                         "memory_limit"};

enum class MachineUnit { events, time, level, state };
MachineUnit unit_of(MachineFact fact);

// One value of one reading.
struct MachineValue {
  MachineFact fact = MachineFact::link_downed;
  std::string object;
  double value = 0;                 // events, microseconds, share
  std::string detail;               // for people: "12 GiB of 1.8 TiB are free, ext4 /dev/sda1"
  base::Rank rank = base::kNoRank;  // of storage_wait
  double before = -1;               // a counter that is told since it grows: what it was at the first reading
};

// Where a rank may run, and where its devices are. Lists of CPUs are the kernel's: "0-3,8".
struct RankPlace {
  base::Rank rank = base::kNoRank;
  base::Pid pid = 0;
  std::string cpus;      // allowed
  int omp_threads = 0;   // OMP_NUM_THREADS; 0: not set
  int runnable = 0;      // threads on a CPU or ready, at the last reading
  std::string gpu;       // "0000:3b:00.0"; empty: not known
  std::string gpu_cpus;  // those near the GPU; empty: not known, or all
  std::string nic;       // the only one that NCCL may use: "mlx5_0"; empty: not known
  std::string nic_cpus;
  std::string memory_group;   // control group of its memory: "/job"
  uint64_t readings = 0;      // so far
  uint64_t crowded = 0;       // readings with more runnable threads than allowed CPUs
  int64_t since_wall_ns = 0;  // when these CPUs were first seen after others; 0: always
};

// What a process is to a rank whose CPUs it had.
enum class CpuRelation {
  stranger,    // no process of this job
  other_rank,  // another rank of the node, or a process that this rank started
  own,         // a process that the rank itself started
  job,         // the launcher, xpurun or another process of the job
  unseen,      // processes outside of this container, which only the CPUs' counters show
};
template <>
inline constexpr std::array<std::string_view, 5> kNames<CpuRelation> = {"stranger", "other_rank", "own",
                                                                        "job", "unseen"};

// Processes of one command and control group that had the CPUs of a rank while its threads were ready to run.
struct Intruder {
  base::Rank rank = base::kNoRank;  // whose CPUs they are
  CpuRelation relation = CpuRelation::stranger;
  base::Rank owner = base::kNoRank;  // of other_rank
  base::Pid pid = 0;                 // the one with the most CPU time; 0: unseen
  std::string command;
  std::string group;          // control group; empty: the root, or not known
  uint64_t processes = 1;     // in one sample, the most
  int cpus = 1;               // that the rank may use
  double watched_s = 0;       // the time of these samples
  double ready_s = 0;         // of it, a thread of the rank was ready without a CPU
  double cpu_s = 0;           // CPU time that they had on the CPUs of the rank
  int64_t begin_wall_ns = 0;  // first and last seen; set by the history
  int64_t end_wall_ns = 0;

  // Of the time of the rank's CPUs.
  double share() const { return watched_s > 0 && cpus > 0 ? cpu_s / (watched_s * cpus) : 0; }
};

// A source that this process may not read, or that the host does not have.
struct MissingSource {
  std::string source;  // "/proc/pressure"
  std::string reason;  // "permission denied"
  friend bool operator==(const MissingSource&, const MissingSource&) = default;
};

struct MachineReading {
  std::vector<MachineValue> values;
  std::vector<RankPlace> places;
  std::vector<MissingSource> missing;
  std::vector<Intruder> intruders = {};  // since the reading before
  std::vector<UseValue> use = {};
};

// A time in which the fact passed its limit without a pause.
struct MachineSpell {
  int64_t begin_wall_ns = 0;  // the reading before
  int64_t end_wall_ns = 0;    // the last reading that showed it
  double amount = 0;          // events: their number; else the largest share
};

struct MachineSeries {
  MachineFact fact = MachineFact::link_downed;
  std::string object;
  std::string detail;  // of the reading with the largest amount, or of the last one
  double first = 0;
  double last = 0;
  std::vector<MachineSpell> spells;  // oldest first; neighbours are joined when there are too many
  base::Rank rank = base::kNoRank;   // of storage_wait; in reports also the rank on the GPU
  int64_t times = 0;                 // readings with events, or spells; also of those that were joined
};

struct MachineHistory {
  int64_t begin_wall_ns = 0;  // 0: no reading
  int64_t end_wall_ns = 0;
  uint64_t readings = 0;
  std::vector<MachineSeries> series;
  std::vector<RankPlace> places;  // by rank
  std::vector<MissingSource> missing;
  std::vector<Intruder> intruders = {};  // most CPU time first
  HostUseHistory use = {};
  std::vector<MemoryUsers> memory = {};  // of each control group, when it was fullest

  bool empty() const { return readings == 0; }
  void add(const MachineReading& reading, int64_t wall_ns);
  // Takes the place of the look before at the same control group.
  void add(const MemoryUsers& users);
};

// One line; a damaged line is an error.
std::string line_of(const MachineReading& reading);
base::Result<MachineReading> machine_reading_from(std::string_view line);

nlohmann::ordered_json to_json(const MachineHistory& h);
// An error means that the content does not match the schema; load_*() also names the path.
base::Result<MachineHistory> machine_history_from_json(const nlohmann::json& j);
base::Result<MachineHistory> load_machine_history(const std::string& path);

// The numbers in the kernel's list of CPUs, "0-3,8"; at most 4096.
std::vector<int> cpus_in(std::string_view list);

}  // namespace xpurun::model
