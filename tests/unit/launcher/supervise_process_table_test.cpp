#include "launcher/processes/process_table.h"
#include "tests/unit/launcher/fake_proc.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

using namespace xpurun;
using namespace xpurun::launcher;
using test::FakeProc;
using test::kCommand;
using test::kSupervisor;

namespace {

std::string rank_env(int rank) {
  return fmt::format("RANK={0} LOCAL_RANK={0} WORLD_SIZE=2", rank);
}

struct ProcessTableScene {
  FakeProc fake;
  ProcessTable table{kSupervisor, 0, fake.proc()};

  ProcessTableScene() { table.set_main(kCommand); }
  std::string role(base::Pid pid) const {
    const model::ProcessRecord& r = table.find(pid)->record;
    return r.rank >= 0 ? fmt::format("{} {}", name_of(r.role), r.rank) : std::string(name_of(r.role));
  }
  void end(base::Pid pid) {
    fake.end(pid);
    table.mark_dead(pid);
  }
};

}  // namespace

TEST_CASE("torchrun, its ranks and their child processes") {
  ProcessTableScene s;
  s.fake.add(kCommand, kSupervisor, "python3");
  s.fake.add(5000020, kCommand, "python3", rank_env(0));
  s.fake.add(5000021, kCommand, "python3", rank_env(1));
  s.fake.add(5000030, 5000021, "python3", rank_env(1));
  s.fake.add(5000031, 5000021, "wandb-core", rank_env(1));
  s.table.refresh();
  CHECK(s.role(kCommand) == "agent");
  CHECK(s.role(5000020) == "rank 0");
  CHECK(s.role(5000021) == "rank 1");
  CHECK(s.role(5000030) == "worker 1");
  CHECK(s.role(5000031) == "child 1");
  CHECK(s.table.descendants_of(5000021).size() == 2);
  CHECK(s.table.descendants_of(5000020).empty());

  SUBCASE("a helper that a rank leaves behind does not become the rank") {
    s.end(5000021);
    s.table.refresh();
    CHECK(s.role(5000030) == "worker 1");
    CHECK(s.role(5000031) == "child 1");
    CHECK(s.table.living_ranks().size() == 1);
  }
  SUBCASE("even if the walk finds the orphans before the death is known") {
    s.fake.end(5000021);
    s.table.refresh();
    s.table.mark_dead(5000021);
    s.table.refresh();
    CHECK(s.role(5000030) == "worker 1");
    CHECK(s.role(5000031) == "child 1");
  }
  SUBCASE("even if the helper was never seen below the rank") {
    s.end(5000021);
    s.fake.add(5000040, kSupervisor, "monitor", rank_env(1));
    s.table.refresh();
    CHECK(s.role(5000040) == "child 1");
  }
  SUBCASE("a restarted rank is the rank") {
    s.end(5000021);
    s.fake.add(5000050, kCommand, "python3", rank_env(1));
    s.table.refresh();
    CHECK(s.role(5000050) == "rank 1");
  }
  SUBCASE("ranks whose launcher has died stay ranks") {
    s.end(kCommand);
    s.table.refresh();
    CHECK(s.role(5000020) == "rank 0");
    CHECK(s.role(5000021) == "rank 1");
  }
}

TEST_CASE("a program that Python starts is not Python, even if the walk saw its fork") {
  ProcessTableScene s;
  s.fake.add(kCommand, kSupervisor, "python3", rank_env(0));
  s.fake.add(5000020, kCommand, "python3", rank_env(0));
  s.table.refresh();
  CHECK(s.role(5000020) == "worker 0");
  s.fake.exec(5000020, "sleep");
  s.table.refresh();
  CHECK(s.role(5000020) == "child 0");
}

TEST_CASE("a rank that a walk saw between fork and exec becomes a rank when it reports its exec") {
  ProcessTableScene s;
  s.fake.add(kCommand, kSupervisor, "python3");
  s.fake.add(5000020, kCommand, "python3", rank_env(0));
  s.fake.add(5000021, kCommand, "python3");
  s.table.refresh();
  CHECK(s.role(5000021) == "other");
  s.fake.exec(5000021, "python3", rank_env(1));
  // Of the same name and no longer young: nothing in /proc/PID/stat shows the exec.
  s.table.find(5000021)->seen -= base::s_to_ns(60);
  s.table.refresh();
  CHECK(s.role(5000021) == "other");
  CHECK(s.table.look_at(5000021, true));
  CHECK(s.role(5000021) == "rank 1");
}

TEST_CASE("a look at one process finds it and those above it, and nothing else") {
  ProcessTableScene s;
  s.fake.add(kCommand, kSupervisor, "python3");
  s.fake.add(5000020, kCommand, "python3", rank_env(0));
  s.table.refresh();
  std::vector<base::Pid> found;
  s.table.on_found([&](const TrackedProcess& p) { found.push_back(p.record.pid); });
  s.fake.add(5000030, 5000020, "sh", rank_env(0));
  s.fake.add(5000031, 5000030, "python3", rank_env(0));
  s.fake.add(5000032, 5000030, "sleep", rank_env(0));
  s.fake.add(5000033, 1, "python3", rank_env(0));
  // The other roles do not depend on a helper of a rank.
  CHECK_FALSE(s.table.look_at(5000031, true));
  CHECK(s.role(5000030) == "child 0");
  CHECK(s.role(5000031) == "worker 0");
  CHECK(s.table.find(5000032) == nullptr);
  CHECK(found == std::vector<base::Pid>{5000031});
  // Not of the job, xpurun's own, and ended.
  s.table.ignore(5000040);
  s.fake.add(5000040, kSupervisor, "helper");
  for (const base::Pid pid : {5000033, 5000040, 5000041}) {
    CHECK_FALSE(s.table.look_at(pid, true));
    CHECK(s.table.find(pid) == nullptr);
  }
  s.table.refresh();
  CHECK(s.role(5000031) == "worker 0");
  CHECK(s.role(5000032) == "child 0");
  SUBCASE("the first rank of a launcher changes the roles of others") {
    s.fake.add(5000050, kCommand, "python3", rank_env(1));
    CHECK(s.table.look_at(5000050, true));
    CHECK(s.role(5000050) == "rank 1");
  }
  SUBCASE("a pid that now belongs to another process") {
    s.fake.end(5000031);
    s.fake.add(5000031, kCommand, "python3", rank_env(1));
    CHECK(s.table.look_at(5000031));
    CHECK(s.role(5000031) == "rank 1");
  }
}

TEST_CASE("of the ended processes only the latest are kept, and a missing pidfd hides no end") {
  ProcessTableScene s;
  s.fake.add(kCommand, kSupervisor, "python3", rank_env(0));
  size_t lost = 0;
  s.table.on_lost([&](base::Pid pid) {
    ++lost;
    s.table.mark_dead(pid);
  });
  s.table.refresh();
  constexpr int kWorkers = 1010;
  constexpr int kOthers = 10;
  for (int i = 0; i < kWorkers + kOthers; ++i) {
    s.fake.add(5001000 + i, kCommand, i < kWorkers ? "python3" : "sleep", rank_env(0),
               test::FakeProc::Write::later);
  }
  s.fake.write();
  // On a slow host one walk does not read all programs.
  while (s.table.records().size() < 1 + kWorkers) {
    s.table.refresh();
  }
  CHECK(s.table.living().size() == 1 + kWorkers + kOthers);
  for (int i = 0; i < kWorkers + kOthers; ++i) {
    s.fake.end(5001000 + i, test::FakeProc::Write::later);
  }
  s.fake.write();
  s.table.refresh();
  CHECK(s.table.living().size() == 1);
  CHECK(lost == kWorkers);
  CHECK(s.table.records().size() == 1 + 1000);
  CHECK(s.table.find(5001000) == nullptr);
  CHECK(s.table.find(5001000 + kWorkers - 1) != nullptr);
}

TEST_CASE("a process that exits keeps its data from /proc and from its preload library") {
  ProcessTableScene s;
  s.fake.add(kCommand, kSupervisor, "xpurun");
  s.table.refresh();
  s.table.note_python(kCommand);
  s.fake.lose_memory(kCommand);
  s.table.refresh();
  const model::ProcessRecord& r = s.table.find(kCommand)->record;
  CHECK(r.python);
  CHECK(r.preload);
  CHECK(r.cmdline == std::vector<std::string>{"xpurun"});
}

TEST_CASE("a shell in front of each rank is not a rank, even if it is seen first") {
  ProcessTableScene s;
  s.fake.add(kCommand, kSupervisor, "srun");
  s.fake.add(5000020, kCommand, "bash", rank_env(0));
  s.table.refresh();
  CHECK(s.role(5000020) == "rank 0");
  s.fake.add(5000021, 5000020, "python3", rank_env(0));
  s.table.refresh();
  CHECK(s.role(5000020) == "agent");
  CHECK(s.role(5000021) == "rank 0");
}

TEST_CASE("without a launcher's variables the topmost Python process is the rank, unless it only waits") {
  ProcessTableScene s;
  s.fake.add(kCommand, kSupervisor, "python3");
  s.fake.add(5000020, kCommand, "python3");
  s.fake.add(5000021, kCommand, "python3");
  s.table.refresh();
  CHECK(s.role(kCommand) == "rank 0");
  CHECK(s.role(5000020) == "worker 0");
  s.table.set_spawners({kCommand});
  s.table.refresh();
  CHECK(s.role(kCommand) == "agent");
  CHECK(s.role(5000020) == "rank 0");
  CHECK(s.role(5000021) == "rank 1");
}

TEST_CASE("the server of a multiprocessing.Manager is no rank") {
  ProcessTableScene s;
  s.fake.add(kCommand, kSupervisor, "python3");
  for (const base::Pid pid : {5000020, 5000021, 5000022}) {
    s.fake.add(pid, kCommand, "python3");
  }
  s.table.refresh();
  s.table.set_spawners({kCommand});
  s.table.refresh();
  REQUIRE(s.role(5000022) == "rank 2");
  s.table.note_manager(5000020);
  CHECK(s.role(5000020) == "other");
  CHECK(s.role(5000021) == "rank 0");
  CHECK(s.role(5000022) == "rank 1");
}

TEST_CASE("xargs and its like start ranks, one after the other or at the same time") {
  for (const char* name : {"xargs", "find", "parallel"}) {
    ProcessTableScene s;
    s.fake.add(kCommand, kSupervisor, "sh");
    s.fake.add(5000019, kCommand, name);
    s.fake.add(5000020, 5000019, "sh");
    s.fake.add(5000021, 5000020, "python3");
    s.fake.add(5000022, 5000019, "python3");
    s.table.refresh();
    CHECK(s.role(5000019) == "agent");
    CHECK(s.role(5000020) == "other");
    CHECK(s.role(5000021) == "rank 0");
    CHECK(s.role(5000022) == "rank 1");
    s.end(5000021);
    s.end(5000022);
    s.table.refresh();
    CHECK(s.role(kCommand) != "rank 0");  // between two tasks
    s.fake.add(5000023, 5000019, "python3");
    s.table.refresh();
    CHECK(s.role(5000023) == "rank 2");
  }
  // A list of files for one program.
  ProcessTableScene s;
  s.fake.add(kCommand, kSupervisor, "sh");
  s.fake.add(5000020, kCommand, "find");
  s.fake.add(5000021, kCommand, "python3");
  s.table.refresh();
  CHECK(s.role(5000021) == "rank 0");
  CHECK(s.role(5000020) == "other");
}

TEST_CASE("a process with the variables and words of a rank is noted as this rank's double") {
  ProcessTableScene s;
  s.fake.add(kCommand, kSupervisor, "sh");
  s.fake.add(5000020, kCommand, "python3", rank_env(0));
  s.fake.add(5000021, kCommand, "python3", rank_env(1));
  s.fake.add(5000022, kCommand, "python3", rank_env(1));
  s.table.refresh();
  CHECK(s.role(5000021) == "rank 1");
  CHECK(s.role(5000022) == "other 1");
  const auto records = s.table.records();
  CHECK(std::any_of(records.begin(), records.end(), [](const auto& r) { return r.pid == 5000022; }));
}

TEST_CASE("a program that makes itself rank 0: torch's default process group names the ranks") {
  ProcessTableScene s;
  s.fake.add(kCommand, kSupervisor, "python3");
  s.fake.add(5000020, kCommand, "python3", "LOCAL_RANK=1 WORLD_SIZE=2");
  s.table.refresh();
  CHECK(s.role(kCommand) == "rank 0");
  CHECK(s.role(5000020) == "worker 0");
  s.table.note_member(5000020, 1, 2);
  s.table.note_member(kCommand, 0, 2);
  CHECK(s.role(kCommand) == "rank 0");
  CHECK(s.role(5000020) == "rank 1");
  CHECK(s.table.world_size() == 2);
  s.table.refresh();
  CHECK(s.role(5000020) == "rank 1");

  SUBCASE("two groups in one job name nobody") {
    s.fake.add(5000030, kCommand, "python3");
    s.table.refresh();
    s.table.note_member(5000030, 1, 2);
    CHECK(s.role(kCommand) == "rank 0");
    CHECK(s.role(5000020) == "worker 0");
    s.table.refresh();
    CHECK(s.role(5000030) == "worker 0");
  }
}

TEST_CASE("a group of some processes of a job names nobody") {
  ProcessTableScene s;
  s.fake.add(kCommand, kSupervisor, "python3");
  for (const base::Pid pid : {5000020, 5000021, 5000022}) {
    s.fake.add(pid, kCommand, "python3");
  }
  s.table.refresh();
  s.table.set_spawners({kCommand});
  s.table.refresh();
  s.table.note_member(5000021, 0, 2);
  s.table.note_member(5000022, 1, 2);
  CHECK(s.role(5000020) == "rank 0");
  CHECK(s.role(5000022) == "rank 2");
  s.table.note_member(5000020, 2, 3);  // now all are
  CHECK(s.role(5000021) == "rank 0");
  CHECK(s.role(5000020) == "rank 2");
}

TEST_CASE("the variables of a launcher come before a process group") {
  ProcessTableScene s;
  s.fake.add(kCommand, kSupervisor, "python3", rank_env(1));
  s.table.refresh();
  s.table.note_member(kCommand, 0, 2);
  s.table.refresh();
  CHECK(s.role(kCommand) == "rank 1");
}

TEST_CASE("a rank that ended before it was found is added from its own report") {
  ProcessTableScene s;
  s.fake.add(kCommand, kSupervisor, "python3");
  s.fake.add(5000020, kCommand, "python3", rank_env(0));
  s.table.refresh();
  const Identity told{.kind = IdentityKind::torchrun, .rank = 1, .local_rank = 1, .world_size = 2};
  CHECK_FALSE(s.table.add_departed(5000020, told));  // known and alive
  // A short-lived program that rank 0 has run.
  CHECK_FALSE(s.table.add_departed(
      5000022, {.kind = IdentityKind::torchrun, .rank = 0, .local_rank = 0, .world_size = 2}));
  CHECK(s.table.add_departed(5000021, told));
  CHECK_FALSE(s.table.add_departed(5000021, told));
  s.table.mark_dead(5000021);
  s.table.refresh();
  CHECK(s.role(5000021) == "rank 1");
  CHECK(s.table.world_size() == 2);
  CHECK(s.table.records().size() == 3);
  // A living process that is not a descendant: its end is unknown.
  s.fake.add(5000030, 1, "python3", rank_env(1));
  CHECK_FALSE(s.table.add_departed(5000030, told));
}

TEST_CASE("a process that ended before it was seen is a rank if its parent waits for ranks") {
  ProcessTableScene s;
  s.fake.add(kCommand, kSupervisor, "python3");
  for (const base::Pid pid : {5000020, 5000021, 5000022}) {
    s.fake.add(pid, kCommand, "python3");
  }
  s.fake.become_zombie(5000021);
  s.table.refresh();
  CHECK_FALSE(s.table.add_unreaped(5000020));  // alive
  CHECK_FALSE(s.table.add_unreaped(5000023));  // reaped
  CHECK(s.table.add_unreaped(5000021));
  CHECK_FALSE(s.table.add_unreaped(5000021));
  model::ProcessRecord& record = s.table.find(5000021)->record;
  record.death = {.happened = true, .at_s = record.seen_s, .wait_status = base::WaitStatus(1 << 8)};
  s.table.mark_dead(5000021);
  CHECK(s.role(5000021) == "worker 0");
  s.table.set_spawners({kCommand});
  s.table.refresh();
  CHECK(s.role(5000021) == "rank 1");
  CHECK(s.role(5000022) == "rank 2");
}

TEST_CASE("standard error: its file and position, from the process or from one that shares the file") {
  ProcessTableScene s;
  s.fake.add(kCommand, kSupervisor, "python3");
  for (const base::Pid pid : {5000020, 5000021}) {
    s.fake.add(pid, kCommand, "python3", rank_env(pid - 5000020) + " TORCHELASTIC_ERROR_FILE=/tmp/e.json");
    s.fake.descriptor(pid, 2, "/data/err.log", 100);
  }
  s.fake.descriptor(kCommand, 2, "pipe:[77]", 0);
  s.table.refresh();
  const auto stream = [&](base::Pid pid) { return s.table.find(pid)->record.error_stream; };
  CHECK(stream(kCommand).kind == model::StreamKind::pipe);
  CHECK(stream(5000020).path == "/data/err.log");
  CHECK(stream(5000020).end == -1);
  CHECK(s.table.find(5000020)->record.error_file == "/tmp/e.json");
  SUBCASE("while the process lives") {
    s.table.note_error_stream(5000020);
    CHECK(stream(5000020).end == 100);
    s.fake.descriptor(5000021, 2, "/data/err.log", 250);
    s.end(5000020);
    s.table.note_error_stream(5000020);
    CHECK(stream(5000020).end == 100);
  }
  SUBCASE("after its end, while another process writes to the file") {
    s.fake.descriptor(5000021, 2, "/data/err.log", 250);
    s.end(5000020);
    s.table.note_error_stream(5000020);
    CHECK(stream(5000020).end == 250);
  }
  SUBCASE("after the end of all writers") {
    s.table.note_error_stream(5000020);
    s.end(5000020);
    s.end(5000021);
    s.table.note_error_stream(5000020);
    CHECK(stream(5000020).end == -1);
  }
}

TEST_CASE("a foreign job: roots, orphans and the end") {
  ProcessTableScene s;
  s.fake.add(5000020, 1, "python3");
  s.fake.add(5000021, 5000020, "python3", rank_env(0));
  s.fake.add(5000022, 5000020, "python3", rank_env(1));
  s.fake.add(5000090, 1, "other");
  s.table.set_main(5000020);
  s.table.set_roots({5000020});
  CHECK(s.table.is_foreign());
  s.table.refresh();
  CHECK(s.role(5000020) == "agent");
  CHECK(s.role(5000021) == "rank 0");
  CHECK(s.table.find(5000090) == nullptr);
  CHECK_FALSE(s.table.foreign_job_ended());

  // The ranks outlive their launcher, whose pid goes to another program.
  s.end(5000020);
  s.fake.add(5000020, 1, "innocent");
  s.table.refresh();
  CHECK_FALSE(s.table.find(5000020)->alive);
  CHECK(s.table.living_ranks().size() == 2);
  CHECK_FALSE(s.table.foreign_job_ended());

  s.end(5000021);
  s.end(5000022);
  s.table.refresh();
  CHECK(s.table.foreign_job_ended());
}
