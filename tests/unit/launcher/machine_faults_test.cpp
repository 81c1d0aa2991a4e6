// Faults of a host, as its files show them: each is found, with its object, and a healthy host has no
// finding.
#include "launcher/machine/machine_reader.h"
#include "report/run/findings.h"
#include "tests/unit/launcher/fake_host.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <sys/syscall.h>
#include <vector>

using namespace xpurun;
using namespace xpurun::launcher;
using test::FakeHost;
using namespace std::string_literals;

namespace {

constexpr int kReadings = 5;
constexpr int64_t kBegan = 1'700'000'000'000'000'000;
constexpr int kFirstPid = 11;   // pid of rank 0
constexpr int kSecondPid = 12;  // pid of rank 1
constexpr int kIntervalUs = 5'000'000;
const std::string kPort = "class/infiniband/mlx5_0/ports/1/";
const std::string kNic = "bus/pci/devices/0000:3b:00.0/";

std::string stall_text(int total_us) {
  return fmt::format(
      "some avg10=0.00 avg60=0.00 avg300=0.00 total={0}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total={0}\n",
      total_us);
}

std::string stat_of(int pid, char state) {
  std::string out = fmt::format("{} (python3) {} 1", pid, state);
  for (int field = 5; field <= 52; ++field) {
    out += " 0";
  }
  return out;
}

std::string cpu_times(int irq, int steal) {
  const auto line = [](std::string_view name, int i, int s) {
    return fmt::format("{} 1000 0 100 100 0 {} 0 {} 0 0\n", name, i, s);
  };
  return line("cpu ", irq, steal) + line("cpu0", irq, 0) + line("cpu1", 0, steal);
}

void add_rank(FakeHost& host, int pid, const std::string& cpus, const std::string& environ) {
  const std::string directory = fmt::format("{}/", pid);
  host.proc(directory + "status", fmt::format("Name:\tpython3\nCpus_allowed_list:\t{}\n", cpus))
      .proc(directory + "environ", environ)
      .proc(directory + "cgroup", "0::/job\n")
      .proc(directory + "stat", stat_of(pid, 'S'))
      .proc(fmt::format("{}task/{}/stat", directory, pid), stat_of(pid, 'R'))
      .proc(directory + "mountinfo",
            "27 1 254:0 / / rw - ext4 /dev/vda rw\n28 27 0:25 / /data rw - nfs4 10.0.0.7:/ds rw\n")
      .link(fmt::format("proc/{}cwd", directory), "/data/run");
}

// Two ranks on a host with one InfiniBand port, one interface and one adapter.
void make_healthy(FakeHost& host) {
  add_rank(host, kFirstPid, "0", "OMP_NUM_THREADS=1\0CUDA_VISIBLE_DEVICES=0\0NCCL_IB_HCA==mlx5_0\0"s);
  add_rank(host, kSecondPid, "1", "OMP_NUM_THREADS=1\0CUDA_VISIBLE_DEVICES=0\0NCCL_IB_HCA==mlx5_0\0"s);
  for (const char* file :
       {"counters/link_downed", "counters/link_error_recovery", "counters/symbol_error",
        "counters/port_rcv_errors", "hw_counters/out_of_sequence", "hw_counters/local_ack_timeout_err"}) {
    host.sys(kPort + file, "3");
  }
  host.sys(kPort + "state", "4: ACTIVE")
      .sys("class/net/eth0/carrier_changes", "2")
      .sys("class/net/eth0/statistics/rx_errors", "0")
      .sys("class/net/eth0/statistics/tx_errors", "0")
      .sys("class/net/eth0/statistics/rx_missed_errors", "0")
      .link("sys/class/net/eth0/device", "../../../0000:3b:00.0")
      .sys(kNic + "class", "0x020700")
      .sys(kNic + "current_link_width", "16")
      .sys(kNic + "max_link_width", "16")
      .sys(kNic + "current_link_speed", "16.0 GT/s PCIe")
      .sys(kNic + "max_link_speed", "16.0 GT/s PCIe")
      .sys(kNic + "aer_dev_correctable", "TOTAL_ERR_COR 0")
      .sys(kNic + "aer_dev_fatal", "TOTAL_ERR_FATAL 0")
      .sys(kNic + "aer_dev_nonfatal", "TOTAL_ERR_NONFATAL 0")
      .sys("class/infiniband/mlx5_0/device/local_cpulist", "0-1")
      .proc("driver/nvidia/gpus/0000:86:00.0/information", "")
      .sys("bus/pci/devices/0000:86:00.0/local_cpulist", "0-1")
      .proc("net/snmp", "Tcp: OutSegs RetransSegs\nTcp: 1000 0\n")
      .proc("pressure/cpu", stall_text(0))
      .proc("pressure/memory", stall_text(0))
      .proc("pressure/io", stall_text(0))
      .sys("fs/cgroup/job/cpu.pressure", stall_text(0))
      .sys("fs/cgroup/job/memory.pressure", stall_text(0))
      .sys("fs/cgroup/job/io.pressure", stall_text(0))
      .proc("stat", cpu_times(0, 0))
      .proc("interrupts", " 41:  0  0  PCI-MSI mlx5_comp3\n")
      .proc("self/mountinfo",
            "27 1 254:0 / / rw - ext4 /dev/vda rw\n28 27 0:25 / /data rw - nfs4 10.0.0.7:/ds rw\n");
  for (const int cpu : {0, 1}) {
    const std::string directory = fmt::format("devices/system/cpu/cpu{}/", cpu);
    host.sys(directory + "cpufreq/scaling_driver", "acpi-cpufreq")
        .sys(directory + "cpufreq/scaling_governor", "performance")
        .sys(directory + "cpufreq/scaling_max_freq", "3000000")
        .sys(directory + "cpufreq/cpuinfo_max_freq", "3000000")
        .sys(directory + "topology/physical_package_id", "0")
        .sys(directory + "thermal_throttle/package_throttle_count", "0");
  }
}

struct Fault {
  const char* name;
  const char* id;      // of the finding
  const char* object;  // in its title or evidence
  // Changes the files before reading `i`, from 0 on.
  std::function<void(FakeHost& host, int i)> make;
  FreeSpace data = {.bytes = 1000, .free_bytes = 500, .inodes = 1000, .free_inodes = 500};  // of /data
};

// A counter that stands at the first reading and grows then.
std::function<void(FakeHost&, int)> grows(std::string path, int by) {
  return
      [path = std::move(path), by](FakeHost& host, int i) { host.sys(path, fmt::format("{}", 3 + by * i)); };
}

std::function<void(FakeHost&, int)> lasts(std::string path, std::string text) {
  return [path = std::move(path), text = std::move(text)](FakeHost& host, int i) {
    if (i > 0) {
      host.sys(path, text);
    }
  };
}

// Total time that grows by this share of each interval.
std::function<void(FakeHost&, int)> presses(std::string path, double share, bool proc = false) {
  return [path = std::move(path), share, proc](FakeHost& host, int i) {
    const std::string text = stall_text(static_cast<int>(share * kIntervalUs) * i);
    proc ? host.proc(path, text) : host.sys(path, text);
  };
}

std::vector<Fault> faults() {
  const int ticks = static_cast<int>(5 / base::ticks_to_s(1));  // of one CPU between two readings
  return {
      {"the link is lost", "machine.link_downed", "mlx5_0/1", grows(kPort + "counters/link_downed", 1)},
      {"the link recovers again and again", "machine.link_recoveries", "again and again",
       grows(kPort + "counters/link_error_recovery", 5)},
      {"symbol errors", "machine.symbol_errors", "mlx5_0/1", grows(kPort + "counters/symbol_error", 1)},
      {"receive errors", "machine.receive_errors", "mlx5_0/1", grows(kPort + "counters/port_rcv_errors", 1)},
      {"packets out of sequence", "machine.retransmissions", "mlx5_0/1",
       grows(kPort + "hw_counters/out_of_sequence", 500)},
      {"RoCE timeouts", "machine.retransmissions", "mlx5_0/1",
       grows(kPort + "hw_counters/local_ack_timeout_err", 20)},
      {"the port goes down", "machine.port_down", "mlx5_0/1", lasts(kPort + "state", "1: DOWN")},
      {"the carrier comes and goes", "machine.carrier_changes", "eth0",
       grows("class/net/eth0/carrier_changes", 2)},
      {"packet errors", "machine.packet_errors", "eth0", grows("class/net/eth0/statistics/rx_errors", 9)},
      {"dropped packets", "machine.packets_dropped", "eth0",
       grows("class/net/eth0/statistics/rx_missed_errors", 1000)},
      {"TCP retransmissions", "machine.tcp_retransmissions", "of the TCP segments",
       [](FakeHost& host, int i) {
         host.proc("net/snmp",
                   fmt::format("Tcp: OutSegs RetransSegs\nTcp: {} {}\n", 1000 + 50000 * i, 2000 * i));
       }},
      {"fewer PCIe lanes", "machine.pcie_narrow", "0000:3b:00.0", lasts(kNic + "current_link_width", "4")},
      {"a lower PCIe speed", "machine.pcie_slow", "0000:3b:00.0",
       lasts(kNic + "current_link_speed", "2.5 GT/s PCIe")},
      {"corrected PCIe errors", "machine.pcie_corrected", "0000:3b:00.0",
       lasts(kNic + "aer_dev_correctable", "TOTAL_ERR_COR 12")},
      {"an uncorrected PCIe error", "machine.pcie_uncorrected", "0000:3b:00.0",
       lasts(kNic + "aer_dev_nonfatal", "TOTAL_ERR_NONFATAL 1")},
      {"heat", "machine.cpu_throttled", "package 0",
       grows("devices/system/cpu/cpu0/thermal_throttle/package_throttle_count", 7)},
      {"a governor that saves power", "machine.cpu_limited", "cpu 1",
       lasts("devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave")},
      {"a limit of the frequency", "machine.cpu_limited", "cpu 0",
       lasts("devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "1200000")},
      {"too little CPU in the control group", "machine.cpu_pressure", "/job",
       presses("fs/cgroup/job/cpu.pressure", 0.9)},
      {"too little memory in the control group", "machine.memory_pressure", "/job",
       presses("fs/cgroup/job/memory.pressure", 0.4)},
      {"a slow disk below the host", "machine.io_pressure", "the host", presses("pressure/io", 0.7, true)},
      {"interrupts on the CPU of a rank", "machine.interrupts", "mlx5_comp3",
       [ticks](FakeHost& host, int i) {
         host.proc("stat", cpu_times(ticks * 9 / 10 * i, 0))
             .proc("interrupts", fmt::format(" 41:  {}  0  PCI-MSI mlx5_comp3\n", 100000 * i));
       }},
      {"the hypervisor takes CPUs", "machine.stolen", "hypervisor",
       [ticks](FakeHost& host, int i) { host.proc("stat", cpu_times(0, ticks / 2 * i)); }},
      {"a disk that is nearly full",
       "machine.space",
       "/data",
       {},
       {.bytes = 1000, .free_bytes = 20, .inodes = 1000, .free_inodes = 500}},
      {"a disk without inodes",
       "machine.inodes",
       "/data",
       {},
       {.bytes = 1000, .free_bytes = 500, .inodes = 1000, .free_inodes = 5}},
      {"a rank that waits for a server", "machine.storage_wait", "/data",
       [](FakeHost& host, int) {
         host.proc("12/task/12/stat", stat_of(kSecondPid, 'D'))
             .proc("12/task/12/syscall", fmt::format("{} 0x5 0x0 0x0 0x0 0x0 0x0 0x7f 0x7f", SYS_read))
             .link("proc/12/fd/5", "/data/shard-7");
       }},
      {"more OpenMP threads than CPUs", "cpu.omp_threads", "(65)",
       [](FakeHost& host, int) { host.proc("12/environ", "OMP_NUM_THREADS=64\0"s); }},
      {"more threads than the cpuset has CPUs", "cpu.crowded", "rank 1",
       [](FakeHost& host, int) {
         for (const int tid : {21, 22, 23}) {
           host.proc(fmt::format("12/task/{}/stat", tid), stat_of(tid, 'R'));
         }
       }},
      {"two ranks on one CPU", "cpu.shared_core", "ranks 0-1",
       [](FakeHost& host, int) { host.proc("12/status", "Cpus_allowed_list:\t0\n"); }},
      {"a rank away from its GPU", "cpu.far_device", "0000:86:00.0",
       lasts("bus/pci/devices/0000:86:00.0/local_cpulist", "32-63")},
      {"a rank away from its adapter", "cpu.far_device", "mlx5_0",
       lasts("class/infiniband/mlx5_0/device/local_cpulist", "32-63")},
  };
}

std::vector<report::Finding> findings_of(const Fault& fault) {
  FakeHost host;
  make_healthy(host);
  MachineReader reader(
      "/run-dir", host.files(), SpaceReader([&fault](const std::string& path) -> std::optional<FreeSpace> {
        return path.starts_with("/data") ? fault.data : FreeSpace{.bytes = 10, .free_bytes = 5};
      }));
  const std::vector<WatchedRank> ranks = {{.rank = 0, .local_rank = 0, .pid = kFirstPid},
                                          {.rank = 1, .local_rank = 1, .pid = kSecondPid}};
  report::RunReport report;
  report.run.started_wall_ns = kBegan;
  report.verdict.kind = model::VerdictKind::none;
  report.machines.emplace_back();
  for (int i = 0; i < kReadings; ++i) {
    if (fault.make) {
      fault.make(host, i);
    }
    reader.sample(ranks, 5);
    report.machines[0].add(reader.read(ranks), kBegan + (2 + 5 * i) * int64_t{1'000'000'000});
  }
  auto out = report::find_findings(report);
  std::erase_if(out, [](const report::Finding& f) { return f.id == "verdict"; });
  return out;
}

}  // namespace

TEST_CASE("faults of a host: a healthy one has no finding") {
  const auto found = findings_of({.name = "none", .id = "", .object = "", .make = {}});
  for (const report::Finding& f : found) {
    MESSAGE(f.id << ": " << f.title);
  }
  CHECK(found.empty());
}

TEST_CASE("faults of a host: each is the one finding, with its object") {
  for (const Fault& fault : faults()) {
    CAPTURE(fault.name);
    const auto found = findings_of(fault);
    REQUIRE(found.size() == 1);
    CHECK(found.front().id == fault.id);
    std::string text = found.front().title;
    for (const std::string& line : found.front().evidence) {
      text += "\n" + line;
    }
    CHECK_MESSAGE(text.find(fault.object) != std::string::npos, text);
    CHECK_FALSE(found.front().next.empty());
  }
}
