// What is wrong with the host, in verdicts: memory, placement, page faults, frozen groups, floods of output.
#include "tests/unit/diagnosis/job.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::report::testing;
using model::MachineFact;
using model::RankSet;
using model::Verdict;

namespace {

constexpr int64_t kBegin = 1'795'000'000'000'000'000;
constexpr int64_t kReading = 5'000'000'000;
constexpr int64_t kHostMiB = int64_t{1} << 20;

struct Counter {
  MachineFact fact;
  base::Rank rank;
  double per_reading;
  std::string object = {};
  std::string detail = {};
};

model::MachineHistory history_of(const std::vector<Counter>& counters,
                                 const std::vector<model::RankPlace>& places = {}) {
  model::MachineHistory out;
  for (int i = 0; i < 6; ++i) {
    model::MachineReading reading;
    reading.places = places;
    for (const Counter& c : counters) {
      reading.values.push_back({.fact = c.fact,
                                .object = c.object,
                                .value = c.per_reading * i,
                                .detail = c.detail,
                                .rank = c.rank});
    }
    out.add(reading, kBegin + i * kReading);
  }
  return out;
}

void on_host(Job& job, model::MachineHistory machine) {
  job.facts.machines = {std::move(machine)};
  job.facts.run.started_wall_ns = kBegin;
  job.facts.run.elapsed_s = 25;
}

model::SpeedFinding slow_rank(model::SlowCause cause) {
  model::SpeedFinding out;
  out.problem = model::SpeedProblem::slow_rank;
  out.cause = cause;
  out.confidence = model::Confidence::medium;
  out.sentence = "rank 1 costs 65 % of every step (54 ms)";
  out.ranks = RankSet{1};
  out.share = 0.65;
  out.lost_s = 0.054;
  out.since = -1;
  return out;
}

const std::vector<model::RankPlace> kOneCore = {{.rank = 0, .cpus = "3"}, {.rank = 1, .cpus = "3"}};
const std::vector<model::RankPlace> kManyThreads = {{.rank = 0, .cpus = "0-1", .omp_threads = 16},
                                                    {.rank = 1, .cpus = "0-1", .omp_threads = 16}};
const std::vector<Counter> kNoCpu = {{MachineFact::no_cpu, 0, 3e6}, {MachineFact::no_cpu, 1, 3e6}};

}  // namespace

TEST_CASE("a rank was killed while processes that are no ranks held the memory") {
  Job job(2);
  job.all(in_compute());
  job.died(1, kKill, 12).ended(exited(1));
  on_host(job, {});
  job.facts.kernel.events = {{.kind = model::KernelEventKind::oom_kill,
                              .at_s = 12,
                              .pid = Job::pid_of(1),
                              .comm = "python",
                              .memory_limit = true}};
  model::MemoryUsers users{.group = "/job",
                           .wall_ns = kBegin + 11'000'000'000,
                           .limit_bytes = 1000 * kHostMiB,
                           .used_bytes = 990 * kHostMiB};
  users.users = {{.pid = 900, .command = "java Indexer", .bytes = 500 * kHostMiB},
                 {.pid = Job::pid_of(1), .role = model::UserRole::rank, .rank = 1, .bytes = 200 * kHostMiB}};
  job.facts.machines[0].memory = {users};
  const Verdict v = diagnose(job.facts);
  CHECK_MESSAGE(v.sentence.find("; java Indexer (pid 900), which is no rank, held 500 MiB of the 1000 MiB of "
                                "control group /job") != std::string::npos,
                v.sentence);
  CHECK_MESSAGE(v.title.starts_with("rank 1 ran out of memory beside java Indexer (pid 900) with 500 MiB"),
                v.title);
  CHECK(v.where.empty());
  CHECK(v.next.command == "ps -o pid,ppid,rss,args -p 900");
  // A look after the death says nothing of what was before it.
  job.facts.machines[0].memory[0].wall_ns = kBegin + 20'000'000'000;
  CHECK(diagnose(job.facts).sentence.find("java") == std::string::npos);
}

TEST_CASE("a job that ended well and slowly says that its ranks share a CPU, or have too many threads") {
  Job job(2);
  job.all(in_compute());
  job.died(0, exited(0), 24).died(1, exited(0), 24).ended(exited(0));
  on_host(job, history_of(kNoCpu, kOneCore));
  Verdict v = diagnose(job.facts);
  CHECK(v.id == "none.finished");
  CHECK_MESSAGE(
      v.sentence.ends_with("; ranks 0-1 are pinned to one CPU, number 3: threads that were ready had no "
                           "CPU"),
      v.sentence);
  CHECK(v.next.text == "give each rank CPUs of its own (taskset, numactl, --cpu-bind)");
  on_host(job, history_of(kNoCpu, kManyThreads));
  v = diagnose(job.facts);
  CHECK_MESSAGE(v.sentence.find("; OMP_NUM_THREADS asks for more threads (32) than CPUs are allowed (2)") !=
                    std::string::npos,
                v.sentence);
  CHECK(v.next.text == "set OMP_NUM_THREADS to 1 or less");
  // The ranks have had their CPUs.
  on_host(job, history_of({{MachineFact::no_cpu, 0, 0.1e6}}, kOneCore));
  CHECK(diagnose(job.facts).sentence.find("pinned") == std::string::npos);
  // No mistake: the CPUs were taken by others.
  on_host(job, history_of(kNoCpu, {{.rank = 0, .cpus = "0"}, {.rank = 1, .cpus = "1"}}));
  CHECK(diagnose(job.facts).sentence.find("CPU") == std::string::npos);
}

TEST_CASE("ranks that were pinned to one CPU later: what they lacked since then counts") {
  Job job(2);
  job.all(in_compute());
  job.died(0, exited(0), 115).died(1, exited(0), 115).ended(exited(0));
  const auto history = [&](int pinned_from) {
    constexpr int kReadings = 24;
    model::MachineHistory out;
    double waited = 0;
    for (int i = 0; i < kReadings; ++i) {
      const bool pinned = i >= pinned_from;
      waited += i > pinned_from ? 2.5e6 : 0;
      model::MachineReading reading;
      reading.places = {{.rank = 0, .cpus = "3"}, {.rank = 1, .cpus = pinned ? "3" : "2"}};
      reading.values = {
          {.fact = MachineFact::no_cpu, .object = "rank 1", .value = waited, .detail = {}, .rank = 1}};
      out.add(reading, kBegin + i * kReading);
    }
    return out;
  };
  on_host(job, history(18));
  CHECK(job.facts.machines[0].places[1].since_wall_ns == kBegin + 18 * kReading);
  CHECK(diagnose(job.facts).sentence.find("ranks 0-1 are pinned to one CPU, number 3") != std::string::npos);
  // Too short to be the cause of anything.
  on_host(job, history(22));
  CHECK(diagnose(job.facts).sentence.find("pinned") == std::string::npos);
}

TEST_CASE("a launcher that the kernel killed before there was a rank: who filled the memory") {
  Job job(0);
  model::ProcessRecord& launcher = job.facts.run.processes[0];
  launcher.role = model::ProcessRole::agent;
  job.agent_died(kKill, 6).ended(kKill);
  job.facts.run.memory = {.path = "/sys/fs/cgroup/job", .oom_kills = 1, .limit_bytes = 1000 * kHostMiB};
  on_host(job, history_of({}));
  model::MemoryUsers users{.group = "/job",
                           .wall_ns = kBegin + 5'000'000'000,
                           .limit_bytes = 1000 * kHostMiB,
                           .used_bytes = 990 * kHostMiB};
  users.users = {
      {.pid = launcher.pid, .command = "python l.py", .role = model::UserRole::job, .bytes = 300 * kHostMiB},
      {.pid = 900, .command = "python side.py", .role = model::UserRole::job, .bytes = 290 * kHostMiB},
      {.pid = 901, .command = "python side.py", .role = model::UserRole::job, .bytes = 280 * kHostMiB}};
  job.facts.machines[0].memory = {users};
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "crash.launcher");
  CHECK_MESSAGE(
      v.sentence.find("; 2 processes held 570 MiB of the 1000 MiB of control group /job: python side.py "
                      "(pid 900) 290 MiB") != std::string::npos,
      v.sentence);
  CHECK(std::any_of(v.evidence.begin(), v.evidence.end(), [](const std::string& line) {
    return line.find("its limit is 1000 MiB") != std::string::npos;
  }));
}

TEST_CASE("a hang says what could not be seen of the host") {
  Job job(2);
  job.all(in_all_reduce()).rank(1, in_sleep()).hang_dump();
  model::MachineHistory machine = history_of({});
  machine.missing = {{.source = "/proc/pressure/cpu", .reason = "the kernel does not count (psi=0)"},
                     {.source = "/proc/interrupts", .reason = "empty or masked"}};
  on_host(job, machine);
  const Verdict v = diagnose(job.facts);
  CHECK(std::count(v.evidence.begin(), v.evidence.end(),
                   "not seen of the host: /proc/pressure/cpu (the kernel does not count (psi=0)), "
                   "/proc/interrupts (empty or masked); xpurun doctor names the command that grants each") ==
        1);
}

TEST_CASE("a slow rank that gets no CPU: the mistake in its placement is the cause") {
  Job job(2);
  job.all(in_compute());
  job.died(0, exited(0), 24).died(1, exited(0), 24).ended(exited(0));
  job.facts.slow = {slow_rank(model::SlowCause::cpu_contention)};
  on_host(job, history_of(kNoCpu, kOneCore));
  const Verdict v = diagnose(job.facts);
  CHECK_MESSAGE(v.sentence.ends_with("; ranks 0-1 are pinned to one CPU, number 3"), v.sentence);
  CHECK(v.next.text.starts_with("give each rank CPUs of its own"));
}

TEST_CASE("a slow rank that waits for pages: how many, and that its group is at its limit") {
  Job job(2);
  job.all(in_compute());
  job.died(0, exited(0), 24).died(1, exited(0), 24).ended(exited(0));
  job.facts.slow = {slow_rank(model::SlowCause::memory)};
  const std::vector<model::RankPlace> places = {{.rank = 1, .cpus = "1", .memory_group = "/job"}};
  const std::vector<Counter> faults = {{MachineFact::no_cpu, 1, 3e6},
                                       {MachineFact::rank_page_faults, 1, 6000},
                                       {MachineFact::memory_limit, base::kNoRank, 9e5, "/job", "330 MiB"}};
  on_host(job, history_of(faults, places));
  Verdict v = diagnose(job.facts);
  CHECK_MESSAGE(
      v.sentence.ends_with("; rank 1 waited for up to 1200 pages a second that were not in memory; control "
                           "group /job was at its memory limit of 330 MiB"),
      v.sentence);
  CHECK(v.next.text.starts_with("give the job more memory (the limit of its control group)"));
  // Another group is at its limit.
  on_host(job, history_of(faults, {{.rank = 1, .cpus = "1", .memory_group = "/other"}}));
  v = diagnose(job.facts);
  CHECK_MESSAGE(v.sentence.ends_with("1200 pages a second that were not in memory"), v.sentence);
  CHECK(v.next.text.starts_with("look at the free memory"));
}

TEST_CASE("a rank that stands still and waits for pages at the limit of its group") {
  Job job(4);
  job.all(in_all_reduce()).rank(1, in_compute(), 12).cpu(1, 0.9).hang_dump();
  on_host(job, history_of({{MachineFact::rank_page_faults, 1, 400},
                           {MachineFact::memory_limit, base::kNoRank, 9e5, "/job", "330 MiB"}},
                          {{.rank = 1, .cpus = "1", .memory_group = "/job"}}));
  job.facts.run.started_wall_ns = kBegin - 40'000'000'000;  // the dump is a minute after the start
  const Verdict v = diagnose(job.facts);
  CHECK_MESSAGE(
      v.sentence.find("; it waited for up to 80 pages a second that were not in memory; control group /job "
                      "was at its memory limit of 330 MiB") != std::string::npos,
      v.sentence);
  CHECK(v.next.text.starts_with("give the job more memory (the limit of its control group)"));
}

TEST_CASE("a slow rank that writes far more than the others, in small pieces") {
  Job job(2);
  job.all(in_compute());
  job.died(0, exited(0), 24).died(1, exited(0), 24).ended(exited(0));
  job.facts.slow = {slow_rank(model::SlowCause::unknown)};
  std::vector<Counter> counters = {{MachineFact::rank_written, 0, 8e3},
                                   {MachineFact::rank_written, 1, 40e6},
                                   {MachineFact::rank_io_calls, 0, 100},
                                   {MachineFact::rank_io_calls, 1, 300e3}};
  on_host(job, history_of(counters));
  const Verdict v = diagnose(job.facts);
  CHECK_MESSAGE(
      v.sentence.ends_with("; rank 1 wrote 191 MiB in small pieces, each of the others at most 39.1 KiB"),
      v.sentence);
  CHECK(v.next.text.starts_with("print or log less"));
  counters[3].per_reading = 40;  // large pieces: a checkpoint
  on_host(job, history_of(counters));
  CHECK(diagnose(job.facts).sentence.find("small pieces") == std::string::npos);
}

TEST_CASE("a rank in a frozen control group") {
  for (const Stack& stack : {in_sleep(), in_all_reduce()}) {
    Job job(4);
    job.all(in_all_reduce()).rank(1, stack).kernel_state(1, 'D').hang_dump();
    job.stacks_of(1).threads[0].wchan = "__refrigerator";
    job.stacks_of(1).threads[0].target = "/slurm/job_7";
    Verdict v = diagnose(job.facts);
    CHECK(v.id == "hang.stopped");
    CHECK(v.ranks == RankSet{1});
    CHECK_MESSAGE(v.sentence.starts_with("hang: rank 1 has been frozen with control group /slurm/job_7 in "),
                  v.sentence);
    CHECK(v.title.starts_with("rank 1 is frozen with its control group"));
    CHECK(v.next.command == "echo THAWED > /sys/fs/cgroup/freezer/slurm/job_7/freezer.state");
    job.stacks_of(1).threads[0].wchan = "do_freezer_trap";
    v = diagnose(job.facts);
    CHECK(v.next.command == "echo 0 > /sys/fs/cgroup/slurm/job_7/cgroup.freeze");
    job.stacks_of(1).threads[0].target = "/a b";
    CHECK(diagnose(job.facts).next.command == "echo 0 > '/sys/fs/cgroup/a b/cgroup.freeze'");
  }
}

TEST_CASE("ranks that ran without the preload library, because LD_PRELOAD was replaced") {
  Job job(2);
  job.all(in_compute());
  job.died(1, kSegv, 12).ended(exited(1));
  job.facts.run.preload_path = "/opt/xpurun/lib/libxpurun_preload.so";
  for (base::Rank r : {0, 1}) {
    job.record(r).python = true;
    job.record(r).preload = r == 0;
  }
  const auto lost = [&] {
    const Verdict v = diagnose(job.facts);
    return std::count_if(v.evidence.begin(), v.evidence.end(), [](const std::string& line) {
      return line.starts_with("rank 1 ran without xpurun's library, because");
    });
  };
  CHECK(lost() == 1);
  job.facts.run.preload_reason = "switched off by --no-preload";
  CHECK(lost() == 0);
}
