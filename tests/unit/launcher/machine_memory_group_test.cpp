#include "common/base/os/io.h"
#include "common/base/os/temporary_directory.h"
#include "launcher/machine/memory/control_groups.h"

#include <doctest/doctest.h>

#include <string>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

// /proc and /sys/fs/cgroup made of files.
struct Groups {
  base::TemporaryDirectory root = base::TemporaryDirectory::create("xpurun-memory").value();

  void write(const std::string& path, const std::string& text) const {
    const std::string full = root.path() + "/" + path;
    REQUIRE(base::make_dirs(full.substr(0, full.rfind('/'))));
    REQUIRE(base::write_file_atomic(full, text));
  }
  HostFiles files() const { return HostFiles(root.path() + "/proc", root.path() + "/sys"); }
  model::MemoryGroup read() const { return read_memory_group(files(), 7); }
};

}  // namespace

TEST_CASE("memory group: version 2") {
  const Groups g;
  CHECK(g.read().empty());
  g.write("proc/7/cgroup", "0::/job/step_0\n");
  CHECK(g.read().empty());
  g.write("sys/fs/cgroup/job/step_0/memory.events",
          "low 0\nhigh 2\nmax 31\noom 3\noom_kill 2\noom_group_kill 0\n");
  g.write("sys/fs/cgroup/job/step_0/memory.max", "1073741824\n");
  g.write("sys/fs/cgroup/job/step_0/memory.current", "1000\n");
  CHECK(g.read().path == g.root.path() + "/sys/fs/cgroup/job/step_0");
  CHECK(g.read().oom_kills == 2);
  CHECK(g.read().limit_bytes == 1073741824);
  CHECK(g.read().used_bytes == 1000);
  g.write("sys/fs/cgroup/job/step_0/memory.max", "max\n");
  CHECK(g.read().limit_bytes == 0);
}

TEST_CASE("memory group: version 1, and the root of a container") {
  const Groups g;
  g.write("proc/7/cgroup", "5:cpu,cpuacct:/a\n4:memory:/\n0::/\n");
  g.write("sys/fs/cgroup/memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n");
  g.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(g.read().oom_kills == 4);
  CHECK(g.read().limit_bytes == 0);
}

TEST_CASE("memory room: the group or the host, whichever has less left") {
  const Groups g;
  const auto room = [&] { return read_memory_room(g.files(), 7); };
  CHECK_FALSE(room());
  g.write("proc/meminfo", "MemTotal:       24000 kB\nMemFree:  100 kB\nMemAvailable:   20000 kB\n");
  REQUIRE(room());
  CHECK(room()->group.empty());
  CHECK(room()->limit_bytes == 24'000 * 1024);
  CHECK(room()->used_bytes == 4'000 * 1024);
  g.write("proc/7/cgroup", "0::/job\n");
  g.write("sys/fs/cgroup/job/memory.events", "oom_kill 0\n");
  g.write("sys/fs/cgroup/job/memory.max", "8192000\n");
  g.write("sys/fs/cgroup/job/memory.current", "8000000\n");
  CHECK(room()->group == g.root.path() + "/sys/fs/cgroup/job");
  CHECK(room()->left_bytes() == 192'000);
  g.write("sys/fs/cgroup/job/memory.max", "max\n");
  CHECK(room()->group.empty());
}

TEST_CASE("memory group: version 1 in a container, which sees its own part of the groups only") {
  const Groups g;
  g.write("proc/meminfo", "MemTotal: 24000 kB\nMemAvailable: 20000 kB\nShmem: 1 kB\n");
  g.write("proc/7/cgroup", "4:memory:/docker/4f1c\n0::/\n");
  g.write("sys/fs/cgroup/memory/memory.oom_control", "oom_kill 1\n");
  g.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "8192000\n");
  g.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "8000000\n");
  REQUIRE(memory_control_group(g.files(), 7));
  CHECK(memory_control_group(g.files(), 7)->path == "/");
  CHECK(memory_control_group(g.files(), 7)->limit_bytes == 8192000);
  CHECK(g.read().oom_kills == 1);
  REQUIRE(read_memory_room(g.files(), 7));
  CHECK(read_memory_room(g.files(), 7)->left_bytes() == 192'000);
  // The root of a host has no limit.
  g.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK_FALSE(memory_control_group(g.files(), 7));
}
