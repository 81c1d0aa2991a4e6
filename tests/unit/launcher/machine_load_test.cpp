#include "launcher/machine/memory/control_groups.h"
#include "launcher/machine/places.h"
#include "launcher/machine/pressure.h"
#include "tests/unit/launcher/fake_host.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::launcher;
using model::MachineFact;
using model::MachineReading;
using test::FakeHost;
using test::value_of;

using namespace std::string_literals;

namespace {

constexpr base::Pid kRank = 4711;

std::string pressure(int some, int full) {
  return fmt::format(
      "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total={}\n",
      some, full);
}

std::string stat_line(base::Pid pid, char state) {
  std::string out = fmt::format("{} (python3) {} 1", pid, state);
  for (int field = 5; field <= 52; ++field) {
    out += " 0";
  }
  return out;
}

}  // namespace

TEST_CASE("pressure: of the host and of the rank's control group") {
  FakeHost host;
  host.proc("pressure/cpu", pressure(100, 1))
      .proc("pressure/memory", pressure(200, 2))
      .proc("pressure/io", pressure(300, 3))
      .proc("4711/cgroup", "0::/job/step\n")
      .sys("fs/cgroup/job/step/cpu.pressure", pressure(10, 4))
      .sys("fs/cgroup/job/step/memory.pressure", pressure(20, 5))
      .sys("fs/cgroup/job/step/io.pressure", pressure(30, 6));
  MachineReading reading;
  read_pressure(host.files(), kRank, reading);
  CHECK(reading.missing.empty());
  REQUIRE(value_of(reading, MachineFact::cpu_pressure, "host") != nullptr);
  CHECK(value_of(reading, MachineFact::cpu_pressure, "host")->value == 100);
  CHECK(value_of(reading, MachineFact::memory_pressure, "host")->value == 2);
  CHECK(value_of(reading, MachineFact::io_pressure, "host")->value == 3);
  CHECK(value_of(reading, MachineFact::cpu_pressure, "/job/step")->value == 4);
  CHECK(value_of(reading, MachineFact::memory_pressure, "/job/step")->value == 5);
  CHECK(value_of(reading, MachineFact::io_pressure, "/job/step")->value == 6);
}

TEST_CASE("group memory: what the kernel killed, and whose the memory is, and in the root of a container") {
  FakeHost host;
  host.proc("4711/cgroup", "0::/job\n")
      .sys("fs/cgroup/job/memory.events", "low 0\noom 4\noom_kill 3\noom_group_kill 1\n")
      .sys("fs/cgroup/job/memory.stat", "anon 100\nfile 70\nkernel 5\nshmem 20\nanon_thp 9\n");
  MachineReading reading;
  read_group_memory(host.files(), {{.rank = 0, .pid = kRank}}, reading);
  REQUIRE(value_of(reading, MachineFact::oom_kills, "/job") != nullptr);
  CHECK(value_of(reading, MachineFact::oom_kills, "/job")->value == 3);
  REQUIRE(reading.use.size() == 3);
  CHECK(reading.use[0].use == model::HostUse::group_processes);
  CHECK(reading.use[0].value == 100);
  CHECK(reading.use[1].value == 50);  // without the shared memory
  CHECK(reading.use[2].value == 20);
  FakeHost container;
  container.proc("4711/cgroup", "0::/\n").sys("fs/cgroup/memory.events", "oom_kill 1\n");
  MachineReading root;
  read_group_memory(container.files(), {{.rank = 0, .pid = kRank}}, root);
  REQUIRE(value_of(root, MachineFact::oom_kills, "/") != nullptr);
  CHECK(value_of(root, MachineFact::oom_kills, "/")->value == 1);
}

TEST_CASE("group memory: control groups of the first version") {
  FakeHost host;
  host.proc("4711/cgroup", "4:memory:/job\n1:cpu:/other\n0::/\n")
      .sys("fs/cgroup/memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
      .sys("fs/cgroup/memory/job/memory.stat",
           "cache 1\nrss 2\nshmem 1\ntotal_cache 70\ntotal_rss 100\ntotal_shmem 20\n");
  MachineReading reading;
  read_group_memory(host.files(), {{.rank = 0, .pid = kRank}}, reading);
  REQUIRE(value_of(reading, MachineFact::oom_kills, "/job") != nullptr);
  CHECK(value_of(reading, MachineFact::oom_kills, "/job")->value == 2);
  REQUIRE(reading.use.size() == 3);
  CHECK(reading.use[0].value == 100);
  CHECK(reading.use[1].value == 50);
  CHECK(reading.use[2].value == 20);
  FakeHost whole;
  whole.proc("4711/cgroup", "4:memory:/\n0::/\n").sys("fs/cgroup/memory/memory.oom_control", "oom_kill 2\n");
  MachineReading root;
  read_group_memory(whole.files(), {{.rank = 0, .pid = kRank}}, root);
  CHECK(root.values.empty());
}

TEST_CASE("pressure: a masked file is said once") {
  FakeHost host;
  MachineReading reading;
  read_pressure(host.files(), kRank, reading);
  CHECK(reading.values.empty());
  REQUIRE(reading.missing.size() == 1);
  CHECK(reading.missing[0].source.ends_with("/pressure/cpu"));
  CHECK(reading.missing[0].reason == "No such file or directory");
}

TEST_CASE("interrupts: the time of each CPU, and the interrupt that came most often") {
  FakeHost host;
  const auto stat = [](int irq, int soft, int steal) {
    return fmt::format(
        "cpu  100 0 100 100 0 {0} {1} {2} 0 0\ncpu0 50 0 50 50 0 0 0 0 0 0\ncpu1 50 0 50 50 0 {0} {1} {2} 0 "
        "0\n",
        irq, soft, steal);
  };
  const auto interrupts = [](int timer, int nic) {
    return fmt::format(
        "           CPU0       CPU1\n 0:  {0}  {0}  IO-APIC 2-edge timer\n 41:  0  {1}  PCI-MSI 5-edge "
        "mlx5_comp3\n",
        timer, nic);
  };
  host.proc("stat", stat(0, 0, 0)).proc("interrupts", interrupts(1000, 10));
  InterruptReader reader;
  MachineReading first;
  reader.read(host.files(), {1}, first);
  host.proc("stat", stat(30, 70, 200)).proc("interrupts", interrupts(1100, 90000));
  MachineReading second;
  reader.read(host.files(), {1}, second);
  CHECK(value_of(second, MachineFact::interrupts, "cpu 0") == nullptr);  // no rank may use it
  const auto* cpu = value_of(second, MachineFact::interrupts, "cpu 1");
  REQUIRE(cpu != nullptr);
  CHECK(cpu->value == doctest::Approx(base::ticks_to_s(100) * 1e6));
  CHECK(cpu->detail == "41 mlx5_comp3");
  const auto* stolen = value_of(second, MachineFact::stolen, "host");
  REQUIRE(stolen != nullptr);
  CHECK(stolen->value == doctest::Approx(base::ticks_to_s(200) * 1e6 / 2));
}

TEST_CASE("frequency: a limit below what the CPU can do, and a governor that saves power") {
  struct Case {
    std::string driver;
    std::string governor;
    std::string most;
    bool limited;
  };
  for (const Case& c : {Case{"acpi-cpufreq", "performance", "3000000", false},
                        Case{"acpi-cpufreq", "powersave", "3000000", true},
                        Case{"intel_pstate", "powersave", "3000000", false},
                        Case{"intel_pstate", "powersave", "1200000", true}}) {
    CAPTURE(c.driver);
    CAPTURE(c.governor);
    FakeHost host;
    const std::string directory = "devices/system/cpu/cpu2/cpufreq/";
    host.sys(directory + "scaling_driver", c.driver)
        .sys(directory + "scaling_governor", c.governor)
        .sys(directory + "scaling_max_freq", c.most)
        .sys(directory + "cpuinfo_max_freq", "3000000");
    MachineReading reading;
    read_frequency(host.files(), {2}, reading);
    CHECK((value_of(reading, MachineFact::cpu_limited, "cpu 2") != nullptr) == c.limited);
  }
}

TEST_CASE("frequency: throttling by heat is counted once per package") {
  FakeHost host;
  for (const int cpu : {0, 1}) {
    const std::string directory = fmt::format("devices/system/cpu/cpu{}/", cpu);
    host.sys(directory + "topology/physical_package_id", "0")
        .sys(directory + "thermal_throttle/package_throttle_count", "12");
  }
  MachineReading reading;
  read_frequency(host.files(), {0, 1}, reading);
  REQUIRE(reading.values.size() == 1);
  CHECK(reading.values[0].object == "package 0");
  CHECK(reading.values[0].value == 12);
}

TEST_CASE("places: allowed CPUs, threads, the GPU and the adapter of a rank") {
  FakeHost host;
  const std::string environ = "OMP_NUM_THREADS=8\0CUDA_VISIBLE_DEVICES=1\0NCCL_IB_HCA==mlx5_2:1\0"s;
  host.proc("4711/status", "Name:\tpython3\nCpus_allowed_list:\t0-3,8\n")
      .proc("4711/environ", environ)
      .proc("4711/stat", stat_line(4711, 'R'))
      .proc("4711/task/4711/stat", stat_line(4711, 'R'))
      .proc("4711/task/4712/stat", stat_line(4712, 'R'))
      .proc("4711/task/4713/stat", stat_line(4713, 'S'))
      .proc("driver/nvidia/gpus/0000:3b:00.0/information", "")
      .proc("driver/nvidia/gpus/0000:86:00.0/information", "")
      .sys("bus/pci/devices/0000:86:00.0/local_cpulist", "32-63\n")
      .sys("class/infiniband/mlx5_2/device/local_cpulist", "0-31\n");
  MachineReading reading;
  read_places(host.files(),
              {{.rank = 5, .local_rank = 1, .pid = kRank}, {.rank = 6, .local_rank = 2, .pid = 1}}, reading);
  REQUIRE(reading.places.size() == 1);
  const model::RankPlace& p = reading.places[0];
  CHECK(p.rank == 5);
  CHECK(p.cpus == "0-3,8");
  CHECK(p.omp_threads == 8);
  CHECK(p.runnable == 2);
  CHECK(p.gpu == "0000:86:00.0");
  CHECK(p.gpu_cpus == "32-63");
  CHECK(p.nic == "mlx5_2");
  CHECK(p.nic_cpus == "0-31");
}
