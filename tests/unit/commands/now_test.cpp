#include "commands/attach/now.h"

#include "tests/unit/launcher/fake_proc.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

constexpr uint32_t kUser = 1000;
constexpr base::Pid kShell = 5000100;

struct NowScene {
  test::FakeProc files;

  void add(base::Pid pid, base::Pid parent, const std::string& program, const std::string& environment = {},
           uint32_t user = kUser) {
    files.add(pid, parent, program, environment);
    REQUIRE(
        base::write_file_atomic(files.proc().path(pid, "status"),
                                fmt::format("Name:\tx\nTracerPid:\t0\nUid:\t{0}\t{0}\t{0}\t{0}\n", user)));
  }
  FoundJob newest() const {
    const auto jobs = jobs_of(files.proc(), kUser, kShell + 99);
    return jobs.empty() ? FoundJob() : jobs.front();
  }
};

using Pids = std::vector<base::Pid>;

}  // namespace

TEST_CASE("now: the newest job of this user") {
  NowScene s;
  s.add(kShell, 1, "bash");
  CHECK(jobs_of(s.files.proc(), kUser, 0).empty());
  s.add(kShell + 1, kShell, "python3");
  CHECK(s.newest().targets == Pids{kShell + 1});

  SUBCASE("a tree with several workers comes before a newer single process") {
    s.add(kShell + 2, kShell + 1, "python3");
    s.add(kShell + 3, kShell + 1, "python3");
    s.add(kShell + 4, kShell, "python3");
    CHECK(s.newest().targets == Pids{kShell + 1});
    s.add(kShell + 5, kShell + 4, "python3");
    CHECK(s.newest().targets == Pids{kShell + 1});  // one worker
  }
  SUBCASE("processes with a launcher's variables come before that; what they have started are no ranks") {
    s.add(kShell + 10, kShell, "mpirun");
    s.add(kShell + 11, kShell + 10, "train", "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2");
    s.add(kShell + 12, kShell + 10, "train", "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2");
    s.add(kShell + 13, kShell + 12, "loader", "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2");
    s.add(kShell + 14, kShell, "python3");
    CHECK(s.newest().targets == Pids{kShell + 11, kShell + 12});
    CHECK(s.newest().supervisor == 0);
    s.add(kShell + 20, kShell, "train", "RANK=0 LOCAL_RANK=0 WORLD_SIZE=1");
    CHECK(s.newest().targets == Pids{kShell + 20});
  }
  SUBCASE("the processes of others do not count") {
    s.add(kShell + 20, kShell, "train", "RANK=0 LOCAL_RANK=0 WORLD_SIZE=1", kUser + 1);
    CHECK(s.newest().targets == Pids{kShell + 1});
  }
  SUBCASE("the supervisor of a job that xpurun has started is found through any of its processes") {
    s.add(test::kSupervisor, kShell, "xpurun");
    s.add(kShell + 30, test::kSupervisor, "python3",
          fmt::format("XPURUN_RUN=1:{}:20000:/tmp/x.sock", test::kSupervisor));
    CHECK(s.newest().supervisor == test::kSupervisor);
    CHECK(supervisor_of(s.files.proc(), kShell + 30) == test::kSupervisor);
    CHECK(supervisor_of(s.files.proc(), kShell + 1) == 0);
  }
}

TEST_CASE("now: the other jobs are named, each once") {
  NowScene s;
  const auto others = [&] { return other_jobs_text(s.files.proc(), jobs_of(s.files.proc(), kUser, 0)); };
  s.add(kShell, 1, "bash");
  s.add(kShell + 1, kShell, "python3");  // a launcher of ranks is no job beside them
  s.add(kShell + 2, kShell + 1, "train", "RANK=0 LOCAL_RANK=0 WORLD_SIZE=2");
  s.add(kShell + 3, kShell + 1, "train", "RANK=1 LOCAL_RANK=1 WORLD_SIZE=2");
  CHECK(others().empty());
  s.add(kShell + 10, kShell, "python3");
  const auto line = [](base::Pid pid) {
    return fmt::format("xpurun:   not looked at: pid {0} (python3); xpurun attach --now {0}\n", pid);
  };
  // The newest is looked at.
  CHECK(others() == line(kShell + 10));
  s.add(test::kSupervisor, kShell, "xpurun");
  const std::string run = fmt::format("XPURUN_RUN=1:{}:20000:/tmp/x.sock", test::kSupervisor);
  s.add(kShell + 20, test::kSupervisor, "mpirun", run);
  s.add(kShell + 21, kShell + 20, "solver", run);
  CHECK(others() == line(kShell + 1) + line(kShell + 10));
  for (int i = 0; i < 6; ++i) {
    s.add(kShell + 30 + i, kShell, "python3");
  }
  const std::string text = others();
  CHECK(std::count(text.begin(), text.end(), '\n') == 6);
  CHECK(text.ends_with("xpurun:   not looked at: 3 further jobs\n"));
}
