// Who filled the memory of a control group, in the words of a verdict.
#include "report/diagnosis/memory/memory_users_words.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::report;
using model::MappedKind;
using model::MemoryUsers;
using model::UserRole;

namespace {

constexpr int64_t kUserMiB = int64_t{1} << 20;

MemoryUsers users_with(std::vector<model::MemoryUser> others, std::vector<model::MappedMemory> mapped = {}) {
  MemoryUsers out{
      .group = "/job",
      .wall_ns = 1'000,
      .limit_bytes = 1000 * kUserMiB,
      .used_bytes = 990 * kUserMiB,
      .users =
          {{.pid = 10, .command = "python t.py", .role = UserRole::rank, .rank = 0, .bytes = 300 * kUserMiB},
           {.pid = 11, .command = "python t.py", .role = UserRole::rank, .rank = 1, .bytes = 290 * kUserMiB}},
      .mapped = std::move(mapped)};
  out.users.insert(out.users.end(), others.begin(), others.end());
  return out;
}

model::HeldMemory line_of_bytes(int64_t mib, int64_t grown = 0) {
  return {.where = {.function = "load", .file = "t.py", .line = 3},
          .bytes = mib * kUserMiB,
          .grown_a_step = grown};
}

const model::MachineHistory kMachine;

}  // namespace

TEST_CASE("memory filler: processes that are no ranks, with pid and command") {
  const MemoryUsers users =
      users_with({{.pid = 20, .command = "python sidecar.py", .bytes = 200 * kUserMiB, .grown = kUserMiB},
                  {.pid = 21, .command = "python sidecar.py", .bytes = 190 * kUserMiB}});
  const MemoryFiller filler = memory_filler(kMachine, users, line_of_bytes(100));
  CHECK(filler.foreign);
  CHECK(
      filler.words ==
      "; 2 processes that are no ranks held 390 MiB of the 1000 MiB of control group /job: python sidecar.py "
      "(pid 20) 200 MiB, python sidecar.py (pid 21) 190 MiB");
  CHECK(filler.title == "ran out of memory beside 2 processes that are no ranks, with 390 MiB");
  CHECK(filler.next.command == "ps -o pid,ppid,rss,args -p 20,21");
  // A line that holds more, or that grows, is the cause.
  CHECK_FALSE(memory_filler(kMachine, users, line_of_bytes(500)).known());
  CHECK_FALSE(memory_filler(kMachine, users, line_of_bytes(300, kUserMiB)).known());
  CHECK(users_words(users, UsersMoment::before_end).front() ==
        "shortly before, control group /job held 990 MiB of its 1000 MiB: rank 0 300 MiB, rank 1 290 MiB, "
        "python sidecar.py (pid 20) 200 MiB, python sidecar.py (pid 21) 190 MiB");
  CHECK(users_words(users, UsersMoment::fullest)
            .front()
            .starts_with("when it was fullest, control group /job"));
  // A job among small processes.
  CHECK_FALSE(memory_filler(kMachine, users_with({{.pid = 20, .bytes = 40 * kUserMiB}}), {}).known());
}

TEST_CASE("memory filler: shared memory and files in memory, and who has written them") {
  model::MachineHistory machine;
  machine.series = {{.fact = model::MachineFact::rank_written, .first = 0, .last = 600e6, .rank = 0},
                    {.fact = model::MachineFact::rank_written, .first = 0, .last = 1e6, .rank = 1}};
  const MemoryUsers stage =
      users_with({}, {{.name = "/stage/shard-*", .bytes = 500 * kUserMiB, .count = 70}});
  const MemoryFiller files = memory_filler(machine, stage, {});
  CHECK(files.rank == 0);
  CHECK(files.words ==
        "; 500 MiB of the 1000 MiB of control group /job were shared memory or files in memory: 70 files "
        "/stage/shard-*, which rank 0 has written");
  CHECK(files.title == "ran out of memory with 500 MiB of shared memory (70 files shard-*)");
  CHECK(files.next.command == "ls -l /stage/shard-*");
  // Names are the program's: a command that is pasted into a shell runs nothing of them.
  const MemoryUsers odd =
      users_with({}, {{.name = "/stage/a; rm b-*.bin", .bytes = 500 * kUserMiB, .count = 70}});
  CHECK(memory_filler(machine, odd, {}).next.command == "ls -l '/stage/a; rm b-'*.bin");
  const MemoryUsers segment =
      users_with({}, {{.name = "/dev/shm/psm_*", .bytes = 500 * kUserMiB, .count = 2, .rank = 1}});
  CHECK(memory_filler(machine, segment, {}).rank == 1);
  CHECK(memory_filler(machine, segment, {}).next.command.empty());
  CHECK_FALSE(memory_filler(machine, segment, line_of_bytes(600)).known());
}

TEST_CASE("memory filler: changed pages of a private map") {
  const MemoryUsers users = users_with(
      {}, {{.kind = MappedKind::dirty, .name = "/data/a.bin", .bytes = 600 * kUserMiB, .rank = 0},
           {.kind = MappedKind::changed, .name = "/data/tokens.bin", .bytes = 500 * kUserMiB, .rank = 1}});
  const MemoryFiller filler = memory_filler(kMachine, users, {});
  CHECK(filler.rank == 1);
  CHECK(
      filler.words ==
      "; 500 MiB of rank 1 were changed pages of /data/tokens.bin, which it maps privately (copy on write)");
  CHECK(users_words(users, UsersMoment::before_end).back() ==
        "in it: 600 MiB of changed pages of /data/a.bin, not yet written, 500 MiB of privately changed pages "
        "of "
        "/data/tokens.bin");
}

TEST_CASE("memory filler: copies in forked workers, of what a line has allocated") {
  const auto copies = [](int64_t mib) {
    MemoryUsers users =
        users_with({{.pid = 30, .role = UserRole::child, .rank = 0, .bytes = 150 * kUserMiB},
                    {.pid = 31, .role = UserRole::child, .rank = 0, .bytes = 150 * kUserMiB}});
    users.users.front().copied = mib * kUserMiB;
    return users;
  };
  const MemoryFiller filler = memory_filler(kMachine, copies(310), line_of_bytes(350));
  CHECK(filler.rank == 0);
  CHECK_FALSE(filler.foreign);
  CHECK(filler.words ==
        "; 310 MiB were copies of pages that rank 0 shares with 2 processes that it has forked, allocated at "
        "load (t.py:3)");
  CHECK_FALSE(memory_filler(kMachine, copies(60), line_of_bytes(350)).known());
  CHECK(users_words(copies(310), UsersMoment::before_end)
            .front()
            .ends_with("rank 1 290 MiB, 2 children of rank 0 300 MiB"));
}

TEST_CASE("memory filler: copies in the workers of several ranks") {
  MemoryUsers users = users_with({{.pid = 30, .role = UserRole::child, .rank = 0, .bytes = 150 * kUserMiB},
                                  {.pid = 31, .role = UserRole::child, .rank = 1, .bytes = 150 * kUserMiB}});
  users.users[0].copied = 150 * kUserMiB;
  users.users[1].copied = 140 * kUserMiB;
  const MemoryFiller filler = memory_filler(kMachine, users, line_of_bytes(100));
  CHECK(filler.bytes == 290 * kUserMiB);
  CHECK(filler.rank == base::kNoRank);
  CHECK(
      filler.words ==
      "; 290 MiB were copies of pages that ranks 0-1 share with 2 processes that they have forked, allocated "
      "at load (t.py:3)");
  // Most of them are of one.
  users.users[1].copied = 10 * kUserMiB;
  users.users[0].copied = 290 * kUserMiB;
  CHECK(memory_filler(kMachine, users, line_of_bytes(100)).rank == 0);
}

TEST_CASE("memory filler: programs that the killed rank has started") {
  MemoryUsers users = users_with(
      {{.pid = 40, .command = "python side.py", .role = UserRole::child, .rank = 0, .bytes = 200 * kUserMiB},
       {.pid = 41, .command = "python side.py", .role = UserRole::child, .rank = 0, .bytes = 180 * kUserMiB},
       {.pid = 42, .command = "python t.py", .role = UserRole::child, .rank = 0, .bytes = 90 * kUserMiB}});
  const MemoryFiller filler = memory_filler(kMachine, users, line_of_bytes(100));
  CHECK(filler.words ==
        "; 2 processes that rank 0 has started held 380 MiB of the 1000 MiB of control group /job: python "
        "side.py "
        "(pid 40) 200 MiB, python side.py (pid 41) 180 MiB");
  CHECK(filler.rank == 0);
  CHECK(filler.next.command == "ps -o pid,ppid,rss,args -p 40,41");
  // A line that holds more than the rank is one of these programs. A worker of its data loader is the rank
  // itself.
  CHECK(memory_filler(kMachine, users, line_of_bytes(350)).known());
  users.users[2].command = users.users[3].command = "python t.py";
  CHECK_FALSE(memory_filler(kMachine, users, line_of_bytes(100)).known());
}

TEST_CASE("memory filler: a launcher, by what it held or by what is beside it") {
  MemoryUsers users{
      .group = "/job", .wall_ns = 1'000, .limit_bytes = 1000 * kUserMiB, .used_bytes = 990 * kUserMiB};
  users.users = {{.pid = 5, .command = "python l.py", .role = UserRole::job, .bytes = 300 * kUserMiB},
                 {.pid = 6, .command = "python side.py", .role = UserRole::job, .bytes = 250 * kUserMiB},
                 {.pid = 7, .command = "python side.py", .role = UserRole::job, .bytes = 240 * kUserMiB}};
  CHECK(launcher_filler(users, 5).words ==
        "; 2 processes held 490 MiB of the 1000 MiB of control group /job: python side.py (pid 6) 250 MiB, "
        "python side.py (pid 7) 240 MiB");
  users.users[0].bytes = 600 * kUserMiB;
  CHECK(launcher_filler(users, 5).words == "; it held 600 MiB of the 1000 MiB of control group /job");
  users.users = {{.pid = 5, .role = UserRole::job, .bytes = 100 * kUserMiB}};
  CHECK_FALSE(launcher_filler(users, 5).known());
}

TEST_CASE("memory filler: the look that fits the process and the time") {
  model::MachineHistory machine;
  machine.places = {{.rank = 0, .memory_group = "/job/rank0"}, {.rank = 1, .memory_group = "/job/rank1"}};
  machine.memory = {
      {.group = "", .wall_ns = 5}, {.group = "/job/rank1", .wall_ns = 6}, {.group = "/o", .wall_ns = 7}};
  const model::RunManifest run;
  const model::ProcessRecord first{.pid = 10, .rank = 0};
  const model::ProcessRecord second{.pid = 11, .rank = 1};
  REQUIRE(users_of_memory(run, machine, second, 1) != nullptr);
  CHECK(users_of_memory(run, machine, second, 1)->group == "/job/rank1");
  CHECK(users_of_memory(run, machine, first, 1)->group.empty());
  CHECK(users_of_memory(run, machine, second, -3) == nullptr);
}
