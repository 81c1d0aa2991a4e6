#include "launcher/evidence/kernel_log.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <ctime>
#include <fcntl.h>
#include <string>
#include <unistd.h>
#include <vector>

using namespace xpurun;
using namespace xpurun::launcher;
using model::EvidenceStatus;
using model::KernelEventKind;

namespace {

// A device that returns one record per read, as /dev/kmsg does: a pipe in packet mode.
class Device {
 public:
  Device() { REQUIRE(::pipe2(ends_, O_DIRECT | O_CLOEXEC | O_NONBLOCK) == 0); }
  ~Device() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  void record(const std::string& text) {
    REQUIRE(::write(ends_[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  KernelLog read(uint64_t since_us) const {
    return read_kernel_log(since_us, fmt::format("/proc/self/fd/{}", ends_[0]));
  }

 private:
  int ends_[2] = {-1, -1};
};

}  // namespace

TEST_CASE("kernel log: an XID of a GPU, with and without a process") {
  const auto e = kernel_event(
      "NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=python3, Ch 00000010, intr 00000000. MMU Fault");
  REQUIRE(e);
  CHECK(e->kind == KernelEventKind::xid);
  CHECK(e->xid == 31);
  CHECK(e->pci == "0000:3b:00");
  CHECK(e->pid == 4711);
  CHECK(e->comm == "python3");
  const auto fallen = kernel_event(
      "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.");
  REQUIRE(fallen);
  CHECK(fallen->xid == 79);
  CHECK(fallen->pid == 0);
  CHECK(fallen->comm.empty());
}

TEST_CASE("kernel log: OOM kills and hung tasks") {
  const auto host = kernel_event("Out of memory: Killed process 4711 (python3) total-vm:9kB, anon-rss:8kB");
  REQUIRE(host);
  CHECK(host->kind == KernelEventKind::oom_kill);
  CHECK(host->pid == 4711);
  CHECK(host->comm == "python3");
  CHECK_FALSE(host->memory_limit);
  const auto limit = kernel_event("Memory cgroup out of memory: Killed process 5 (a) total-vm:1kB");
  REQUIRE(limit);
  CHECK(limit->pid == 5);
  CHECK(limit->memory_limit);
  const auto hung = kernel_event("INFO: task pt_main:thread:88 blocked for more than 120 seconds.");
  REQUIRE(hung);
  CHECK(hung->kind == KernelEventKind::hung_task);
  CHECK(hung->comm == "pt_main:thread");
  CHECK(hung->pid == 88);
}

TEST_CASE("kernel log: other lines, and lines that only look similar") {
  for (const char* line :
       {"usb 1-1: new device", "NVRM: Xid (PCI:0000:3b:00)", "NVRM: Xid (PCI:0000:3b:00): many, x",
        "Out of memory: nothing to kill", "INFO: task blocked for more than 120 seconds.", ""}) {
    CHECK_FALSE(kernel_event(line));
  }
}

TEST_CASE("kernel log: records since the start of the run, with their time in the run") {
  Device device;
  device.record("4,1,1000000,-;NVRM: Xid (PCI:0000:01:00): 13, old\n");
  device.record(
      "4,2,60000000,-;NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\n SUBSYSTEM=pci\n");
  device.record("6,3,61000000,-;eth0: link up\n");
  device.record("garbage without a semicolon");
  device.record("6,x;y");
  const KernelLog log = device.read(50'000'000);
  CHECK(log.status == EvidenceStatus::ok);
  REQUIRE(log.events.events.size() == 1);
  CHECK(log.events.events[0].xid == 79);
  CHECK(log.events.events[0].at_s == 10);
  CHECK(log.events.events[0].text == "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.");
}

TEST_CASE("kernel log: an empty log is read, a missing one has a reason unless syslog answers") {
  const Device device;
  CHECK(device.read(0).events.events.empty());
  const KernelLog log = read_kernel_log(0, "/no/such/device");
  CHECK((log.status == EvidenceStatus::ok) == log.reason.empty());
}

TEST_CASE("kernel log: a moment is found again on the log's clock") {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  const auto raw_us =
      static_cast<uint64_t>(now.tv_sec) * 1'000'000 + static_cast<uint64_t>(now.tv_nsec) / 1000;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const uint64_t us =
      on_log_clock(static_cast<uint64_t>(now.tv_sec) * 1'000'000 + static_cast<uint64_t>(now.tv_nsec) / 1000);
  CHECK(us + 1000 >= raw_us);
  CHECK(us < raw_us + 1'000'000);
}
