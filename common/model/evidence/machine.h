// MachineHistory: machine.json in the run directory, schema "xpurun.machine/1": what the kernel counts about
// the host below a job (links, file systems, pressure, interrupts), read every few seconds while the job
// runs. Only what passed its limit is kept with its times: a run of days stays small.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"
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
  // Counters of time in microseconds; the fact is the share of the time between two readings.
  cpu_pressure,     // some thread waits for a CPU; "host" or a control group
  memory_pressure,  // all threads wait for memory
  io_pressure,      // all threads wait for a disk
  interrupts,       // one CPU handles interrupts: "cpu 3"
  stolen,           // the hypervisor has taken CPUs: "host"
  storage_wait,     // a process of `rank` is inside a call to a file system: "/data"
  // Levels from 0 to 1.
  space,   // of a file system that is used: "/data"
  inodes,  //
  // 1 while it holds.
  pcie_narrow,   // fewer lanes than device and slot have
  pcie_slow,     // a lower speed than device and slot have
  port_down,     // InfiniBand
  mount_silent,  // a question for the free space has had no answer for seconds: "/data"
  cpu_limited,   // the highest frequency is set below what the CPU can do, or the governor saves power
};
template <>
inline constexpr std::array<std::string_view, 27> kNames<MachineFact> = {
    "link_downed",     "link_recoveries", "symbol_errors",    "receive_errors",  "retransmissions",
    "congestion",      "carrier_changes", "packet_errors",    "packets_dropped", "tcp_retransmissions",
    "tcp_segments",    "pcie_corrected",  "pcie_uncorrected", "cpu_throttled",   "cpu_pressure",
    "memory_pressure", "io_pressure",     "interrupts",       "stolen",          "storage_wait",
    "space",           "inodes",          "pcie_narrow",      "pcie_slow",       "port_down",
    "mount_silent",    "cpu_limited"};

enum class MachineUnit { events, time, level, state };
MachineUnit unit_of(MachineFact fact);

// One value of one reading.
struct MachineValue {
  MachineFact fact = MachineFact::link_downed;
  std::string object;
  double value = 0;                 // events, microseconds, share
  std::string detail;               // for people: "12 GiB of 1.8 TiB are free, ext4 /dev/sda1"
  base::Rank rank = base::kNoRank;  // of storage_wait
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
  uint64_t readings = 0;  // so far
  uint64_t crowded = 0;   // readings with more runnable threads than allowed CPUs
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
  base::Rank rank = base::kNoRank;
  int64_t times = 0;  // readings with events, or spells; also of those that were joined
};

struct MachineHistory {
  int64_t begin_wall_ns = 0;  // 0: no reading
  int64_t end_wall_ns = 0;
  uint64_t readings = 0;
  std::vector<MachineSeries> series;
  std::vector<RankPlace> places;  // by rank
  std::vector<MissingSource> missing;

  bool empty() const { return readings == 0; }
  void add(const MachineReading& reading, int64_t wall_ns);
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
