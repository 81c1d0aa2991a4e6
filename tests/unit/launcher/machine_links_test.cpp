#include "launcher/machine/ethtool.h"
#include "launcher/machine/links.h"
#include "tests/unit/launcher/fake_host.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::launcher;
using model::MachineFact;
using model::MachineReading;
using test::FakeHost;
using test::value_of;

TEST_CASE("links: the counters of an InfiniBand port, added up by what they say") {
  FakeHost host;
  const std::string port = "class/infiniband/mlx5_0/ports/1/";
  host.sys(port + "counters/link_downed", "2\n")
      .sys(port + "counters/link_error_recovery", "505\n")
      .sys(port + "counters/symbol_error", "7\n")
      .sys(port + "counters/port_rcv_errors", "1\n")
      .sys(port + "hw_counters/out_of_sequence", "10\n")
      .sys(port + "hw_counters/local_ack_timeout_err", "3\n")
      .sys(port + "state", "4: ACTIVE\n")
      .sys("class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n");
  MachineReading reading;
  read_infiniband(host.files(), reading);
  REQUIRE(value_of(reading, MachineFact::link_recoveries, "mlx5_0/1") != nullptr);
  CHECK(value_of(reading, MachineFact::link_recoveries, "mlx5_0/1")->value == 505);
  CHECK(value_of(reading, MachineFact::link_downed, "mlx5_0/1")->value == 2);
  CHECK(value_of(reading, MachineFact::symbol_errors, "mlx5_0/1")->value == 7);
  CHECK(value_of(reading, MachineFact::receive_errors, "mlx5_0/1")->value == 1);
  CHECK(value_of(reading, MachineFact::retransmissions, "mlx5_0/1")->value == 13);
  CHECK(value_of(reading, MachineFact::congestion, "mlx5_0/1") == nullptr);
  CHECK(value_of(reading, MachineFact::port_down, "mlx5_0/1")->value == 0);
  CHECK(value_of(reading, MachineFact::port_down, "mlx5_1/1")->value == 1);
}

TEST_CASE("links: network interfaces, physical ones with all counters") {
  FakeHost host;
  host.sys("class/net/lo/carrier_changes", "1\n")
      .sys("class/net/eth0/carrier_changes", "4\n")
      .sys("class/net/eth0/statistics/rx_errors", "5\n")
      .sys("class/net/eth0/statistics/tx_errors", "1\n")
      .sys("class/net/eth0/statistics/rx_missed_errors", "9\n")
      .sys("class/net/veth1/carrier_changes", "2\n")
      .sys("class/net/veth1/statistics/tx_dropped", "99\n")
      .link("sys/class/net/eth0/device", "../../../0000:3b:00.0");
  MachineReading reading;
  read_interfaces(host.files(), reading);
  CHECK(value_of(reading, MachineFact::carrier_changes, "lo") == nullptr);
  REQUIRE(value_of(reading, MachineFact::packet_errors, "eth0") != nullptr);
  CHECK(value_of(reading, MachineFact::packet_errors, "eth0")->value == 6);
  CHECK(value_of(reading, MachineFact::packets_dropped, "eth0")->value == 9);
  CHECK(value_of(reading, MachineFact::carrier_changes, "veth1")->value == 2);
  CHECK(value_of(reading, MachineFact::packets_dropped, "veth1") == nullptr);
}

TEST_CASE("links: the counters of an adapter's driver") {
  MachineReading reading;
  add_adapter_counters({{"rx_prio3_pause", 7},
                        {"rx_prio5_pause", 1},
                        {"rx_prio3_pause_duration", 250'000},
                        {"rx_prio3_pause_transition", 3},
                        {"tx_prio3_pause", 99},
                        {"rx_discards_phy", 12},
                        {"link_down_events_phy", 2},
                        {"rx_prio_pause", 50},
                        {"rx_packets", 1'000}},
                       "eth0", reading);
  REQUIRE(reading.values.size() == 4);
  CHECK(value_of(reading, MachineFact::pause_frames, "eth0")->value == 8);
  CHECK(value_of(reading, MachineFact::paused, "eth0")->value == 250'000);
  CHECK(value_of(reading, MachineFact::port_discards, "eth0")->value == 12);
  CHECK(value_of(reading, MachineFact::link_downed, "eth0")->value == 2);
  CHECK(adapter_counters("no-such-link").empty());
  CHECK(adapter_counters("lo").empty());
}

TEST_CASE("links: an adapter that a switch keeps waiting") {
  model::MachineHistory history;
  for (int i = 0; i < 4; ++i) {
    MachineReading reading;
    // A quarter of five seconds.
    add_adapter_counters({{"rx_prio3_pause_duration", 1'250'000U * static_cast<unsigned>(i)}}, "eth0",
                         reading);
    history.add(reading, (100 + 5 * i) * int64_t{1'000'000'000});
  }
  REQUIRE(history.series.size() == 1);
  REQUIRE(history.series.front().spells.size() == 1);
  CHECK(history.series.front().spells.front().amount == doctest::Approx(0.25));
}

TEST_CASE("links: TCP retransmissions") {
  FakeHost host;
  host.proc(
      "net/snmp",
      "Ip: Forwarding\nIp: 1\nTcp: RtoAlgorithm OutSegs RetransSegs InErrs\nTcp: 1 1000 17 0\nUdp: a\n");
  MachineReading reading;
  read_tcp(host.files(), reading);
  REQUIRE(value_of(reading, MachineFact::tcp_retransmissions, "host") != nullptr);
  CHECK(value_of(reading, MachineFact::tcp_retransmissions, "host")->value == 17);
  CHECK(value_of(reading, MachineFact::tcp_segments, "host")->value == 1000);
}

TEST_CASE("links: PCIe width, speed and errors against what device and slot can do") {
  FakeHost host;
  const std::string nic = "bus/pci/devices/0000:3b:00.0/";
  const std::string gpu = "bus/pci/devices/0000:4b:00.0/";
  host.sys(nic + "class", "0x020700\n")
      .sys(nic + "current_link_width", "8\n")
      .sys(nic + "max_link_width", "16\n")
      .sys(nic + "current_link_speed", "16.0 GT/s PCIe\n")
      .sys(nic + "max_link_speed", "16.0 GT/s PCIe\n")
      .sys(nic + "aer_dev_correctable", "RxErr 3\nBadTLP 0\nTOTAL_ERR_COR 3\n")
      .sys(nic + "aer_dev_fatal", "TOTAL_ERR_FATAL 1\n")
      .sys(nic + "aer_dev_nonfatal", "TOTAL_ERR_NONFATAL 2\n")
      .sys(nic + "infiniband/mlx5_0/node_type", "1\n")
      .sys(gpu + "class", "0x030200\n")
      .sys(gpu + "current_link_width", "16\n")
      .sys(gpu + "max_link_width", "16\n")
      .sys(gpu + "current_link_speed", "2.5 GT/s PCIe\n")
      .sys(gpu + "max_link_speed", "32.0 GT/s PCIe\n")
      .sys("bus/pci/devices/0000:00:1f.0/class", "0x060100\n");
  MachineReading reading;
  read_pci(host.files(), reading);
  const std::string object = "0000:3b:00.0 (mlx5_0)";
  REQUIRE(value_of(reading, MachineFact::pcie_narrow, object) != nullptr);
  CHECK(value_of(reading, MachineFact::pcie_narrow, object)->value == 1);
  CHECK(value_of(reading, MachineFact::pcie_narrow, object)->detail == "x8 of x16");
  CHECK(value_of(reading, MachineFact::pcie_slow, object)->value == 0);
  CHECK(value_of(reading, MachineFact::pcie_corrected, object)->value == 3);
  CHECK(value_of(reading, MachineFact::pcie_uncorrected, object)->value == 3);
  // A GPU without work lowers its speed.
  CHECK(value_of(reading, MachineFact::pcie_narrow, "0000:4b:00.0 (GPU)")->value == 0);
  CHECK(value_of(reading, MachineFact::pcie_slow, "0000:4b:00.0 (GPU)") == nullptr);
}

TEST_CASE("links: a slot with fewer lanes than the device is no fault of the link") {
  FakeHost host;
  const std::string real = "devices/pci0000:00/0000:3a:00.0/0000:3b:00.0/";
  host.sys(real + "class", "0x020000\n")
      .sys(real + "current_link_width", "8\n")
      .sys(real + "max_link_width", "16\n")
      .sys("bus/pci/devices/0000:3a:00.0/max_link_width", "8\n")
      .link("sys/bus/pci/devices/0000:3b:00.0", "../../../devices/pci0000:00/0000:3a:00.0/0000:3b:00.0");
  MachineReading reading;
  read_pci(host.files(), reading);
  REQUIRE(value_of(reading, MachineFact::pcie_narrow, "0000:3b:00.0") != nullptr);
  CHECK(value_of(reading, MachineFact::pcie_narrow, "0000:3b:00.0")->value == 0);
}

TEST_CASE("links: a host without any of these files has no values") {
  FakeHost host;
  MachineReading reading;
  read_infiniband(host.files(), reading);
  read_interfaces(host.files(), reading);
  read_tcp(host.files(), reading);
  read_pci(host.files(), reading);
  CHECK(reading.values.empty());
}
