// Who has the memory of a control group: processes, files in memory, copies of forked processes.
#include "launcher/machine/memory/memory_files.h"
#include "launcher/machine/memory/memory_maps.h"
#include "launcher/machine/memory/memory_users.h"
#include "tests/unit/launcher/fake_host.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace xpurun;
using namespace xpurun::launcher;
using model::MappedKind;
using model::UserRole;
using test::FakeHost;

namespace {

constexpr base::Pid kLauncher = 4710;
constexpr base::Pid kFirstRank = 4711;
constexpr base::Pid kWorker = 4712;
constexpr base::Pid kStranger = 4713;
constexpr int64_t kMapMiB = int64_t{1} << 20;

std::string map_text(const std::string& header, int rss_mib, int own_mib, int common_mib, int no_file_mib) {
  return fmt::format(
      "{}\nSize: 900000 kB\nRss: {} kB\nPss: {} kB\nShared_Clean: 0 kB\nShared_Dirty: {} kB\nPrivate_Clean: "
      "0 "
      "kB\nPrivate_Dirty: {} kB\nAnonymous: {} kB\nVmFlags: rd wr\n",
      header, rss_mib * 1024, own_mib * 1024 + common_mib * 512, common_mib * 1024, own_mib * 1024,
      no_file_mib * 1024);
}

void add_process(FakeHost& host, base::Pid pid, base::Pid parent, const std::string& command, int mib) {
  const std::string dir = std::to_string(pid);
  const int pages = mib * 256;
  std::string words = command;
  std::replace(words.begin(), words.end(), ' ', '\0');
  host.proc(dir + "/stat",
            fmt::format("{} (python) S {} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 100 1000 {} 0 0 0 "
                        "0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0",
                        pid, parent, pages))
      .proc(dir + "/statm", fmt::format("{} {} 10 0 0 0 0", pages * 2, pages))
      .proc(dir + "/cmdline", words + std::string(1, '\0'))
      .proc(dir + "/cgroup", "0::/job/step\n")
      .proc(dir + "/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:5 / /dev/shm rw - tmpfs shm rw\n");
}

// A group with a limit of 1000 MiB around the group of the rank.
FakeHost full_host(int processes_mib, int shared_mib) {
  FakeHost host;
  host.proc("meminfo", "MemTotal: 8000000 kB\nMemAvailable: 6000000 kB\nShmem: 1 kB\n")
      .sys("fs/cgroup/job/step/memory.events", "oom_kill 0\n")
      .sys("fs/cgroup/job/step/memory.max", "max\n")
      .sys("fs/cgroup/job/step/cgroup.procs", "4710\n4711\n4712\n")
      .sys("fs/cgroup/job/cgroup.procs", "4713\n")
      .sys("fs/cgroup/job/memory.max", fmt::format("{}\n", 1000 * kMapMiB))
      .sys("fs/cgroup/job/memory.stat", fmt::format("anon {}\nfile {}\nshmem {}\n", processes_mib * kMapMiB,
                                                    shared_mib * kMapMiB, shared_mib * kMapMiB));
  add_process(host, kLauncher, 1, "/usr/bin/python torchrun", 20);
  add_process(host, kFirstRank, kLauncher, "python train.py", 500);
  add_process(host, kWorker, kFirstRank, "python train.py", 300);
  add_process(host, kStranger, 1, "/usr/bin/python -m sidecar", 200);
  return host;
}

const model::MemoryUser& user_of(const model::MemoryUsers& look, base::Pid pid) {
  const auto it =
      std::find_if(look.users.begin(), look.users.end(), [&](const auto& u) { return u.pid == pid; });
  REQUIRE(it != look.users.end());
  return *it;
}

const std::vector<WatchedRank> kRanks = {{.rank = 3, .local_rank = 0, .pid = kFirstRank}};

}  // namespace

TEST_CASE("memory maps: sizes, kinds and names") {
  const auto maps = memory_maps_in(
      map_text("7f00-7f10 rw-p 00000000 00:00 0 ", 7, 5, 2, 7) +
      map_text("7f20-7f30 rw-s 00000000 00:18 99                         /dev/shm/psm_1f (deleted)", 9, 0, 9,
               0) +
      map_text("55d0-55e0 rw-p 00000000 00:00 0                          [heap]", 1, 1, 0, 1) + "damaged\n");
  REQUIRE(maps.size() == 3);
  CHECK(maps[0].begin == 0x7f00);
  CHECK(maps[0].end == 0x7f10);
  CHECK(maps[0].is_anonymous());
  CHECK(maps[0].resident == 7 * kMapMiB);
  CHECK(maps[0].own_changed == 5 * kMapMiB);
  CHECK(maps[0].in_common == 2 * kMapMiB);
  CHECK(maps[1].shared);
  CHECK(maps[1].path == "/dev/shm/psm_1f");
  CHECK_FALSE(maps[1].is_anonymous());
  CHECK(maps[2].is_anonymous());
  CHECK(common_name("/dev/shm/psm_1f3a") == "/dev/shm/psm_*");
  CHECK(common_name("/stage/shard-0001.bin") == "/stage/shard-*");
  CHECK(common_name("/data/tokens.bin") == "/data/tokens.bin");
  CHECK(common_name("/data/0001") == "/data/0001");
}

TEST_CASE("memory users: nobody looks while there is room") {
  FakeHost host = full_host(300, 100);
  MemoryUsersWatch watch(1);
  CHECK(watch.turn(host.files(), kRanks, 1'000'000'000, 5) > 1000);
  CHECK(watch.take().empty());
}

TEST_CASE("memory users: a rank, its worker, its launcher and a stranger, of the group that has the limit") {
  FakeHost host = full_host(800, 10);
  host.proc("4711/smaps", map_text("1000-9000 rw-p 00000000 00:00 0 ", 500, 320, 180, 500) +
                              map_text("40000-50000 rw-p 00000000 00:00 0 ", 60, 60, 0, 60))
      .proc("4712/smaps", map_text("1000-9000 rw-p 00000000 00:00 0 ", 300, 120, 180, 300) +
                              map_text("20000-30000 rw-p 00000000 00:00 0 ", 50, 50, 0, 50) +
                              map_text("40000-52000 rw-p 00000000 00:00 0 ", 70, 70, 0, 70));
  MemoryUsersWatch watch(1);
  CHECK(watch.turn(host.files(), kRanks, 1'000'000'000, 77) < 1000);
  auto looks = watch.take();
  REQUIRE(looks.size() == 1);
  const model::MemoryUsers& look = looks.front();
  CHECK(look.group == "/job");
  CHECK(look.wall_ns == 77);
  CHECK(look.limit_bytes == 1000 * kMapMiB);
  CHECK(look.used_bytes == 810 * kMapMiB);
  CHECK(look.processes == 4);
  CHECK(user_of(look, kFirstRank).role == UserRole::rank);
  CHECK(user_of(look, kFirstRank).rank == 3);
  CHECK(user_of(look, kWorker).role == UserRole::child);
  CHECK(user_of(look, kWorker).rank == 3);
  CHECK(user_of(look, kLauncher).role == UserRole::job);
  CHECK(user_of(look, kStranger).role == UserRole::other);
  CHECK(user_of(look, kStranger).command == "python");
  CHECK(user_of(look, kLauncher).command == "python torchrun");
  // What the worker has mapped itself is no copy.
  CHECK(user_of(look, kFirstRank).copied == 120 * kMapMiB);
  CHECK(user_of(look, kWorker).copied == 0);

  // All pages of the mapping are copied by now; it had pages in common before.
  host.proc("4711/smaps", map_text("1000-9000 rw-p 00000000 00:00 0 ", 500, 500, 0, 500))
      .proc("4712/smaps", map_text("1000-9000 rw-p 00000000 00:00 0 ", 300, 300, 0, 300))
      .sys("fs/cgroup/job/memory.stat", fmt::format("anon {}\nfile 0\nshmem 0\n", 990 * kMapMiB));
  watch.turn(host.files(), kRanks, 20'000'000'000, 78);
  looks = watch.take();
  REQUIRE(looks.size() == 1);
  CHECK(user_of(looks.front(), kFirstRank).copied == 300 * kMapMiB);

  // As full as before: nothing new. A rank less: it died of this.
  watch.turn(host.files(), kRanks, 40'000'000'000, 79);
  watch.turn(host.files(), {{.rank = 2, .pid = kLauncher}, kRanks.front()}, 50'000'000'000, 80);
  watch.turn(host.files(), kRanks, 60'000'000'000, 81);
  // Nor does the end of all ranks begin anew.
  watch.turn(host.files(), {}, 70'000'000'000, 82);
  watch.turn(host.files(), kRanks, 80'000'000'000, 83);
  CHECK(watch.take().empty());
}

TEST_CASE("memory users: the command and what it has started, before there is a rank") {
  FakeHost host = full_host(800, 10);
  constexpr base::Pid kXpurun = 4700;
  add_process(host, kXpurun, 1, "xpurun train.py", 10);
  add_process(host, kLauncher, kXpurun, "/usr/bin/python launch.py", 700);
  host.link("proc/4700/exe", "/usr/bin/xpurun")
      .link("proc/4710/exe", "/usr/bin/python3")
      .proc("4700/task/4700/children", "4710 ");
  MemoryUsersWatch watch(kXpurun);
  watch.turn(host.files(), {}, 1'000'000'000, 77);
  auto looks = watch.take();
  REQUIRE(looks.size() == 1);
  CHECK(looks.front().group == "/job");
  CHECK(user_of(looks.front(), kLauncher).role == UserRole::job);
  CHECK(user_of(looks.front(), kFirstRank).role == UserRole::job);  // no rank so far
  CHECK(user_of(looks.front(), kFirstRank).rank == base::kNoRank);
  CHECK(user_of(looks.front(), kStranger).role == UserRole::other);
  // With ranks, they are looked at anew.
  watch.turn(host.files(), kRanks, 20'000'000'000, 78);
  looks = watch.take();
  REQUIRE(looks.size() == 1);
  CHECK(user_of(looks.front(), kFirstRank).role == UserRole::rank);
  CHECK(user_of(looks.front(), kWorker).role == UserRole::child);
}

TEST_CASE("memory files: shared memory, changed pages of private maps, and who has them") {
  MemoryFiles files("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:5 / /dev/shm rw - tmpfs shm rw\n");
  const std::string one = map_text("10-20 rw-s 0 00:18 9 /dev/shm/psm_1f (deleted)", 40, 0, 40, 0) +
                          map_text("20-30 rw-s 0 00:18 9 /dev/shm/psm_2f", 30, 30, 0, 0) +
                          map_text("30-40 rw-p 0 08:01 9 /data/tokens.bin", 90, 70, 0, 70) +
                          map_text("40-50 r--p 0 08:01 9 /usr/lib/libtorch.so", 200, 0, 200, 0) +
                          map_text("50-60 rw-s 0 08:01 9 /data/cache.bin", 64, 20, 4, 0);
  files.add_maps(memory_maps_in(one), 0);
  files.add_maps(memory_maps_in(map_text("10-20 rw-s 0 00:18 9 /dev/shm/psm_1f (deleted)", 40, 0, 40, 0)), 1);
  const auto list = files.list(nullptr);
  REQUIRE(list.size() == 3);
  CHECK(list[0].kind == MappedKind::shared);
  CHECK(list[0].name == "/dev/shm/psm_*");
  CHECK(list[0].bytes == 70 * kMapMiB);
  CHECK(list[0].count == 2);
  CHECK(list[0].rank == base::kNoRank);  // two ranks
  CHECK(list[1].kind == MappedKind::changed);
  CHECK(list[1].name == "/data/tokens.bin");
  CHECK(list[1].bytes == 70 * kMapMiB);
  CHECK(list[1].rank == 0);
  CHECK(list[2].kind == MappedKind::dirty);
  CHECK(list[2].bytes == 24 * kMapMiB);
  // What was there before is not of the job.
  CHECK(files.list(&files).empty());
  CHECK(files.shared_bytes() == 70 * kMapMiB);
}

TEST_CASE("memory users: a line comes back as it was, and a reading is none") {
  const model::MemoryUsers users{
      .group = "/job",
      .wall_ns = 5,
      .limit_bytes = 9,
      .used_bytes = 8,
      .shared_bytes = 3,
      .processes = 2,
      .users =
          {{.pid = 7, .command = "python a.py", .role = UserRole::child, .rank = 1, .bytes = 6, .copied = 2}},
      .mapped = {{.kind = MappedKind::changed, .name = "/data/x", .bytes = 4, .count = 2, .rank = 1}}};
  const auto again = model::memory_users_from(model::line_of(users));
  REQUIRE(again);
  CHECK(model::line_of(*again) == model::line_of(users));
  CHECK_FALSE(model::memory_users_from(model::line_of(model::MachineReading{})));
  model::MachineHistory history;
  history.add(users);
  history.add(users);
  CHECK(history.memory.size() == 1);
  const auto kept = model::machine_history_from_json(nlohmann::json::parse(to_json(history).dump()));
  REQUIRE(kept);
  CHECK(kept->memory.front().users.front().copied == 2);
}
