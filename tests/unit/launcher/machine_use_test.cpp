// What a host uses over time, and what ranks and mounts read and write.
#include "launcher/machine/host_use.h"
#include "launcher/machine/io_counters.h"
#include "tests/unit/launcher/fake_host.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::launcher;
using model::HostUse;
using model::MachineFact;
using model::MachineReading;
using test::FakeHost;
using test::value_of;

namespace {

constexpr base::MonoNs kOneSecond = 1'000'000'000;

double use_of(const MachineReading& reading, HostUse use, const std::string& object) {
  for (const model::UseValue& v : reading.use) {
    if (v.use == use && v.object == object) {
      return v.value;
    }
  }
  return -1;
}

void put_counters(FakeHost& host, int ticks, int sectors, int bytes, int words) {
  host.proc("stat",
            fmt::format("cpu  {} 0 0 1000 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0\n", ticks))
      .proc("meminfo", "MemTotal:       1000 kB\nMemFree:   100 kB\nMemAvailable:    250 kB\n")
      .proc("diskstats",
            fmt::format("   8       0 sda 1 2 {0} 4 5 6 {1} 8 0 0 0\n   8       1 sda1 1 2 {0} 4 5 6 {1} 8\n",
                        sectors, 2 * sectors))
      .sys("block/sda/device/model", "x")
      .sys("class/net/eth0/device/vendor", "x")
      .sys("class/net/eth0/statistics/rx_bytes", fmt::format("{}", bytes))
      .sys("class/net/eth0/statistics/tx_bytes", fmt::format("{}", 3 * bytes))
      .sys("class/net/lo/statistics/rx_bytes", fmt::format("{}", bytes))
      .sys("class/net/lo/statistics/tx_bytes", fmt::format("{}", bytes))
      .sys("class/infiniband/mlx5_0/ports/1/counters/port_rcv_data", fmt::format("{}", words))
      .sys("class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", fmt::format("{}", words));
}

}  // namespace

TEST_CASE("host use: rates between two readings, of devices but not of partitions and lo") {
  FakeHost host;
  HostUseReader reader;
  put_counters(host, 1000, 100, 1000, 100);
  MachineReading first;
  reader.read(host.files(), kOneSecond, first);
  CHECK(first.use.size() == 1);  // memory, which is no rate
  const int busy = static_cast<int>(2 / base::ticks_to_s(1));
  put_counters(host, 1000 + busy, 300, 5000, 600);
  MachineReading second;
  reader.read(host.files(), 3 * kOneSecond, second);
  CHECK(use_of(second, HostUse::cpu, "") == doctest::Approx(0.5));  // 2 s of 2 CPUs in 2 s
  CHECK(use_of(second, HostUse::memory, "") == doctest::Approx(0.75));
  CHECK(use_of(second, HostUse::disk_read, "sda") == doctest::Approx(100 * 512));
  CHECK(use_of(second, HostUse::disk_written, "sda") == doctest::Approx(200 * 512));
  CHECK(use_of(second, HostUse::disk_read, "sda1") == -1);
  CHECK(use_of(second, HostUse::net_received, "eth0") == doctest::Approx(2000));
  CHECK(use_of(second, HostUse::net_sent, "eth0") == doctest::Approx(6000));
  CHECK(use_of(second, HostUse::net_received, "lo") == -1);
  CHECK(use_of(second, HostUse::link_received, "mlx5_0/1") == doctest::Approx(1000));
  put_counters(host, 1000, 0, 0, 0);  // the counters began again
  MachineReading third;
  reader.read(host.files(), 4 * kOneSecond, third);
  CHECK(third.use.size() == 1);
}

TEST_CASE("host use: the history has means, and stays small") {
  model::HostUseHistory history;
  for (int second = 0; second < 10000; second += 5) {
    history.add({{.use = HostUse::cpu, .object = {}, .value = second < 5000 ? 0.25 : 0.75}},
                1'700'000'000'000'000'000 + second * kOneSecond);
  }
  REQUIRE(history.tracks.size() == 1);
  CHECK(history.bins() <= 180);
  CHECK(history.bins() * history.bin_s >= 9995);
  CHECK(history.tracks[0].values.front() == doctest::Approx(0.25));
  CHECK(history.tracks[0].values.back() == doctest::Approx(0.75));
  // A device that comes later, and a reading that is missing.
  model::HostUseHistory gaps;
  gaps.add({{.use = HostUse::cpu, .object = {}, .value = 1}}, kOneSecond);
  gaps.add({{.use = HostUse::disk_read, .object = "sda", .value = 7}}, 12 * kOneSecond);
  CHECK(gaps.tracks[1].values == std::vector<double>{-1, -1, 7});
  gaps.add({{.use = HostUse::cpu, .object = {}, .value = 1}}, kOneSecond / 2);  // set back
  CHECK(gaps.bins() == 3);
}

TEST_CASE("rank io: bytes and calls of a rank") {
  FakeHost host;
  host.proc("4711/io", "rchar: 1000\nwchar: 20\nsyscr: 5\nsyscw: 2\nread_bytes: 0\nwrite_bytes: 0\n");
  MachineReading reading;
  read_rank_io(host.files(),
               {{.rank = 2, .local_rank = 0, .pid = 4711}, {.rank = 3, .local_rank = 1, .pid = 1}}, reading);
  REQUIRE(reading.values.size() == 3);
  CHECK(reading.values[0].fact == MachineFact::rank_read);
  CHECK(reading.values[0].value == 1000);
  CHECK(reading.values[0].rank == 2);
  CHECK(reading.values[1].value == 20);
  CHECK(reading.values[2].value == 7);
}

TEST_CASE("mount io: NFS by mount, with the time of its operations") {
  FakeHost host;
  host.proc("4711/mountstats",
            "device proc mounted on /proc with fstype proc\n"
            "device 10.0.0.7:/ds mounted on /data with fstype nfs4 statvers=1.1\n"
            "\topts:\trw,vers=4.2\n"
            "\tbytes:\t11 12 0 0 5000 600 2 3\n"
            "\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)\n"
            "\txprt:\ttcp 0 0 1 0 0 5 5 0 5 0 2 0 0\n"
            "\tper-op statistics\n"
            "\t        NULL: 1 1 0 44 24 0 0 0 0\n"
            "\t        READ: 100 100 0 9 9 1 3000 3100 0\n"
            "\t       WRITE: 9 9 0 9 9 1 200 210 0\n"
            "\n"
            "device tmpfs mounted on /tmp with fstype tmpfs\n");
  MachineReading reading;
  read_mount_io(host.files(), 4711, reading);
  CHECK(reading.values.size() == 4);
  CHECK(value_of(reading, MachineFact::mount_read, "/data")->value == 5000);
  CHECK(value_of(reading, MachineFact::mount_written, "/data")->value == 600);
  CHECK(value_of(reading, MachineFact::mount_operations, "/data")->value == 110);
  CHECK(value_of(reading, MachineFact::mount_time, "/data")->value == 3'310'000);
  MachineReading nothing;
  read_mount_io(host.files(), 1, nothing);
  CHECK(nothing.values.empty());
}

TEST_CASE("host use: tracks of another source come into the same bins") {
  model::HostUseHistory host{.begin_wall_ns = 10 * kOneSecond, .bin_s = 10, .tracks = {}};
  host.tracks = {{.use = HostUse::cpu, .object = {}, .values = {1, 1, 1}}};
  model::HostUseHistory gpus{.begin_wall_ns = 5 * kOneSecond, .bin_s = 5, .tracks = {}};
  gpus.tracks = {{.use = HostUse::gpu_power, .object = "GPU 0", .values = {900, 100, 300, -1, -1, 500, 700}}};
  host.join(gpus);
  REQUIRE(host.tracks.size() == 2);
  // What was before the first bin is gone, and a bin without a reading stays empty.
  CHECK(host.tracks[1].values == std::vector<double>{200, -1, 600});
  model::HostUseHistory longer{.begin_wall_ns = 10 * kOneSecond, .bin_s = 20, .tracks = {}};
  longer.tracks = {{.use = HostUse::gpu_load, .object = "GPU 0", .values = {0.5}}};
  host.join(longer);
  CHECK(host.tracks[2].values == std::vector<double>{0.5, 0.5});
  // Damaged: later than any history.
  longer.begin_wall_ns = 1'000'000'000 * kOneSecond;
  host.join(longer);
  CHECK(host.tracks[3].values.empty());
  model::HostUseHistory none;
  none.join(gpus);
  CHECK(none.tracks.size() == 1);
}
