// The CPU limit of control groups and the hypervisor's share, from fabricated /proc and /sys/fs/cgroup.
#include "common/base/os/io.h"
#include "common/base/os/temporary_directory.h"
#include "launcher/processes/throttled_cpu.h"
#include "launcher/spans/stolen_cpu.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace xpurun;

namespace {

constexpr base::Pid kPid = 77;
constexpr int64_t kSecond = 1'000'000'000;

class FakeHost {
 public:
  void put(const std::string& path, const std::string& text) {
    const std::string file = root_.path() + "/" + path;
    REQUIRE(base::make_dirs(file.substr(0, file.rfind('/'))));
    REQUIRE(base::write_file_atomic(file, text));
  }
  void stat2(const std::string& group, int periods, int64_t us) {
    put("cgroup" + group + "/cpu.stat",
        fmt::format(
            "usage_usec 5\nuser_usec 3\nsystem_usec 2\nnr_periods 900\nnr_throttled {}\nthrottled_usec {}\n"
            "nr_bursts 0\nburst_usec 0\n",
            periods, us));
  }
  void stat1(const std::string& group, int periods, int64_t ns) {
    put("cgroup" + group + "/cpu.stat",
        fmt::format("nr_periods 900\nnr_throttled {}\nthrottled_time {}\n", periods, ns));
  }
  void member(const std::string& lines) { put(fmt::format("proc/{}/cgroup", kPid), lines); }
  void cpu(const std::string& line) { put("proc/stat", line + "\ncpu0 1 2 3\nintr 5\n"); }
  launcher::ThrottledCpu throttled() const {
    return launcher::ThrottledCpu(kPid, base::ProcFs(root_.path() + "/proc"), root_.path() + "/cgroup");
  }
  launcher::StolenCpu stolen() const { return launcher::StolenCpu(root_.path() + "/proc"); }

 private:
  base::TemporaryDirectory root_ = *base::TemporaryDirectory::create("xpurun-takers-");
};

}  // namespace

TEST_CASE("a CPU limit of version 2: the time is read from the first sample on") {
  FakeHost host;
  host.member("0::/pod/box\n");
  host.stat2("/pod/box", 100, 5'000'000);
  auto throttled = host.throttled();
  CHECK(throttled.sample(kSecond) == 0);
  host.stat2("/pod/box", 105, 5'310'000);
  CHECK(throttled.sample(2 * kSecond) == 310'000'000);
  CHECK(throttled.sample(3 * kSecond) == 310'000'000);
}

TEST_CASE("throttled time of several CPUs is not longer than the periods, nor than the time that passed") {
  FakeHost host;
  host.member("0::/box\n");
  host.put("cgroup/box/cpu.max", "200000 50000\n");
  host.stat2("/box", 0, 0);
  auto throttled = host.throttled();
  CHECK(throttled.sample(kSecond) == 0);
  host.stat2("/box", 4, 3'000'000);  // four periods of 50 ms, of many CPUs
  CHECK(throttled.sample(2 * kSecond) == 200'000'000);
  host.stat2("/box", 1000, 90'000'000);
  CHECK(throttled.sample(3 * kSecond) == 1'200'000'000);
}

TEST_CASE("a process that is moved into a group with a limit is throttled by that") {
  FakeHost host;
  host.member("9:name=systemd:/\n1:cpu:/\n0::/\n");
  auto throttled = host.throttled();
  CHECK(throttled.sample(kSecond) == -1);  // no group counts
  host.put("cgroup/cpu/slow/cpu.stat", "nr_periods 900\nnr_throttled 500\nthrottled_time 7000000000\n");
  host.put("cgroup/cpu/slow/cpu.cfs_period_us", "100000\n");
  host.member("9:name=systemd:/\n1:cpu:/slow\n0::/\n");
  throttled.sample(3 * kSecond);
  host.put("cgroup/cpu/slow/cpu.stat", "nr_periods 910\nnr_throttled 510\nthrottled_time 7850000000\n");
  CHECK(throttled.sample(4 * kSecond) == 850'000'000);
  host.member("9:name=systemd:/\n1:cpu:/\n0::/\n");
  CHECK(throttled.sample(6 * kSecond) == 850'000'000);  // moved back: what was counted stays
}

TEST_CASE("the limit of an outer group counts, and groups without a counter do not") {
  FakeHost host;
  host.member("0::/pod/box\n");
  host.stat2("/pod", 10, 0);
  host.put("cgroup/pod/box/cpu.stat", "usage_usec 5\n");
  host.put("cgroup/cpu.stat", "usage_usec 5\n");
  auto throttled = host.throttled();
  CHECK(throttled.sample(kSecond) == 0);
  host.stat2("/pod", 12, 120'000);
  CHECK(throttled.sample(2 * kSecond) == 120'000'000);
}

TEST_CASE("version 1, and a container that sees its own group as the root") {
  FakeHost host;
  host.member("12:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/\n");
  host.stat1("/cpu,cpuacct", 1, 100);
  host.put("cgroup/cpu,cpuacct/cpu.cfs_period_us", "20000\n");
  auto throttled = host.throttled();
  CHECK(throttled.sample(kSecond) == 0);
  host.stat1("/cpu,cpuacct", 3, 90'000'100);
  CHECK(throttled.sample(2 * kSecond) == 40'000'000);
  FakeHost other;
  other.member("4:cpuacct,cpu:/\n");
  other.stat1("/cpu", 1, 100);
  auto linked = other.throttled();
  CHECK(linked.sample(kSecond) == 0);
  other.stat1("/cpu", 2, 7'000'100);
  CHECK(linked.sample(2 * kSecond) == 7'000'000);
}

TEST_CASE("without control groups the throttled time is unknown") {
  for (const char* lines : {"", "0::/box\n", "nonsense", "0::/../other\n", "3:cpu\n"}) {
    FakeHost host;
    host.member(lines);
    auto throttled = host.throttled();
    CHECK(throttled.sample(kSecond) == -1);
    CHECK(throttled.sample(2 * kSecond) == -1);
  }
  FakeHost vanished;
  CHECK(vanished.throttled().sample(kSecond) == -1);
}

TEST_CASE("counters that fall or become unreadable add nothing") {
  FakeHost host;
  host.member("0::/box\n");
  host.stat2("/box", 50, 5'000'000);
  auto throttled = host.throttled();
  CHECK(throttled.sample(kSecond) == 0);
  host.stat2("/box", 2, 100'000);  // a new group of the same name
  CHECK(throttled.sample(2 * kSecond) == 0);
  host.put("cgroup/box/cpu.stat", "");
  CHECK(throttled.sample(3 * kSecond) == 0);
  host.stat2("/box", 3, 130'000);
  CHECK(throttled.sample(4 * kSecond) == 30'000'000);
}

TEST_CASE("the hypervisor's share is that of the busy time") {
  FakeHost host;
  host.cpu("cpu  100 0 50 1000 10 0 0 20 0 0");
  auto stolen = host.stolen();
  CHECK(stolen.sample(kSecond) == 0);
  host.cpu("cpu  170 0 68 9000 10 0 0 32 0 0");      // 70 + 18 + 12 stolen
  CHECK(stolen.sample(kSecond + kSecond / 2) == 0);  // read once a second at most
  CHECK(stolen.sample(2 * kSecond) == 120'000'000);
  CHECK(stolen.sample(3 * kSecond) == 120'000'000);
  host.cpu("cpu  1 0 1 1 1 0 0 1 0 0");
  CHECK(stolen.sample(4 * kSecond) == 120'000'000);
}

TEST_CASE("a kernel without stolen time, and no /proc/stat") {
  for (const char* line : {"", "cpu  100 0 50 1000", "cpu  100 0 50 1000 x 0 0 20", "cpu0 1 2 3 4 5 6 7 8"}) {
    FakeHost host;
    host.cpu(line);
    auto stolen = host.stolen();
    CHECK(stolen.sample(kSecond) == -1);
    CHECK(stolen.sample(3 * kSecond) == -1);
  }
  CHECK(FakeHost().stolen().sample(kSecond) == -1);
}
