#include "commands/attach/now.h"

#include "tests/unit/launcher/fake_proc.h"

#include <doctest/doctest.h>

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
    const auto job = newest_job(files.proc(), kUser, kShell + 99);
    return job ? *job : FoundJob();
  }
};

using Pids = std::vector<base::Pid>;

}  // namespace

TEST_CASE("now: the newest job of this user") {
  NowScene s;
  s.add(kShell, 1, "bash");
  CHECK_FALSE(newest_job(s.files.proc(), kUser, 0).has_value());
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
