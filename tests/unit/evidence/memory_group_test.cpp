#include "launcher/evidence/memory_group.h"

#include "common/base/os/io.h"
#include "common/base/os/temporary_directory.h"

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
  model::MemoryGroup read() const {
    return read_memory_group(base::ProcFs(root.path() + "/proc"), 7, root.path() + "/cgroup");
  }
};

}  // namespace

TEST_CASE("memory group: version 2") {
  const Groups g;
  CHECK(g.read().empty());
  g.write("proc/7/cgroup", "0::/job/step_0\n");
  CHECK(g.read().empty());
  g.write("cgroup/job/step_0/memory.events", "low 0\nhigh 2\nmax 31\noom 3\noom_kill 2\noom_group_kill 0\n");
  g.write("cgroup/job/step_0/memory.max", "1073741824\n");
  g.write("cgroup/job/step_0/memory.current", "1000\n");
  CHECK(g.read().path == g.root.path() + "/cgroup/job/step_0");
  CHECK(g.read().oom_kills == 2);
  CHECK(g.read().limit_bytes == 1073741824);
  CHECK(g.read().used_bytes == 1000);
  g.write("cgroup/job/step_0/memory.max", "max\n");
  CHECK(g.read().limit_bytes == 0);
}

TEST_CASE("memory group: version 1, and the root of a container") {
  const Groups g;
  g.write("proc/7/cgroup", "5:cpu,cpuacct:/a\n4:memory:/\n0::/\n");
  g.write("cgroup/memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n");
  g.write("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(g.read().oom_kills == 4);
  CHECK(g.read().limit_bytes == 0);
}

TEST_CASE("memory room: the group or the host, whichever has less left") {
  const Groups g;
  const auto room = [&] {
    return read_memory_room(base::ProcFs(g.root.path() + "/proc"), 7, g.root.path() + "/cgroup");
  };
  CHECK_FALSE(room());
  g.write("proc/meminfo", "MemTotal:       24000 kB\nMemFree:  100 kB\nMemAvailable:   20000 kB\n");
  REQUIRE(room());
  CHECK(room()->group.empty());
  CHECK(room()->limit_bytes == 24'000 * 1024);
  CHECK(room()->used_bytes == 4'000 * 1024);
  g.write("proc/7/cgroup", "0::/job\n");
  g.write("cgroup/job/memory.events", "oom_kill 0\n");
  g.write("cgroup/job/memory.max", "8192000\n");
  g.write("cgroup/job/memory.current", "8000000\n");
  CHECK(room()->group == g.root.path() + "/cgroup/job");
  CHECK(room()->left_bytes() == 192'000);
  g.write("cgroup/job/memory.max", "max\n");
  CHECK(room()->group.empty());
}
