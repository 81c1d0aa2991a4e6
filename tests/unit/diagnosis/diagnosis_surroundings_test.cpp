#include "report/diagnosis/rules/surroundings.h"
#include "tests/unit/diagnosis/job.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::report::testing;
using model::KernelEventKind;
using model::Verdict;

namespace {

model::KernelEvent xid(int number, double at_s, base::Pid pid = 0) {
  return {.kind = KernelEventKind::xid,
          .at_s = at_s,
          .pid = pid,
          .xid = number,
          .pci = "0000:3b:00",
          .text = "x"};
}

bool says_of_surroundings(const Verdict& v, std::string_view line) {
  return std::find(v.evidence.begin(), v.evidence.end(), line) != v.evidence.end();
}

bool speaks_of(const Verdict& v, std::string_view word) {
  return v.sentence.find(word) != std::string::npos ||
         std::any_of(v.evidence.begin(), v.evidence.end(),
                     [&](const std::string& line) { return line.find(word) != std::string::npos; });
}

model::KernelEvent oom_kill(base::Pid pid, double at_s, bool memory_limit = false) {
  return {.kind = KernelEventKind::oom_kill,
          .at_s = at_s,
          .pid = pid,
          .comm = "python3",
          .memory_limit = memory_limit,
          .text = "Memory of process 1 (python3)"};
}

// A history of one counter that was read at these seconds of the run.
model::MachineHistory history_of(model::MachineFact fact,
                                 const std::vector<std::pair<double, double>>& values) {
  model::MachineHistory out;
  for (const auto& [at_s, value] : values) {
    out.add({.values = {{.fact = fact, .object = "mlx5_0/1", .value = value, .detail = {}}},
             .places = {},
             .missing = {}},
            1'700'000'000'000'000'000 + static_cast<int64_t>(at_s * 1e9));
  }
  return out;
}

Job killed() {
  Job job(2);
  job.died(1, kKill, 12.5).died(0, kTerm, 13, "ended by the launcher");
  job.agent_died(exited(1), 14).ended(exited(1));
  return job;
}

Job aborted() {
  Job job(2);
  job.notice(1, kAbrt, 12).crash_dump();
  job.died(1, kAbrt, 12.5).died(0, kTerm, 13, "ended by the launcher");
  job.agent_died(exited(1), 14).ended(exited(1));
  return job;
}

}  // namespace

TEST_CASE("a crash names the XID of the culprit's process, or of a GPU that failed as a whole") {
  for (const base::Pid pid : {Job::pid_of(1), 0}) {
    Job job = aborted();
    job.facts.kernel.events = {xid(79, 11, pid)};
    const Verdict v = diagnose(job.facts);
    CHECK(v.id == "crash.signal");
    CHECK(
        v.sentence.ends_with("; the kernel reported Xid 79 (GPU has fallen off the bus) of GPU 0000:3b:00"));
    CHECK(v.sentence.find(v.headline) != std::string::npos);
  }
}

TEST_CASE("an XID of another process, or of another time, is evidence but no explanation") {
  for (const model::KernelEvent& other : {xid(31, 11, 999), xid(31, 100), xid(31, 12 - 61)}) {
    Job job = aborted();
    job.facts.kernel.events = {other};
    const Verdict v = diagnose(job.facts);
    CHECK(v.sentence.find("Xid") == std::string::npos);
    CHECK(speaks_of(v, "Xid 31 (invalid access to GPU memory) of GPU 0000:3b:00"));
  }
}

namespace {

Job hung_with(model::KernelEvent error) {
  Job job(4);
  job.all(in_all_reduce()).hang_dump();
  job.facts.kernel.events = {std::move(error)};
  job.facts.kernel.host_pids = true;
  return job;
}

}  // namespace

TEST_CASE("a hang: the rank whose GPU failed is the culprit, by its pid or by its GPU") {
  for (const bool by_pid : {true, false}) {
    Job job = hung_with(xid(79, 49, by_pid ? Job::pid_of(2) : 0));
    if (!by_pid) {
      for (const base::Rank r : {1, 2}) {
        job.facts.gpus.devices.push_back({.index = r, .pci = r == 2 ? "0000:3B:00.0" : "0000:4B:00.0"});
        job.facts.gpus.devices.back().processes = {{.pid = Job::pid_of(r)}};
      }
    }
    const Verdict v = diagnose(job.facts);
    CHECK(v.id == "hang.gpu_error");
    CHECK(v.level == model::VerdictLevel::confirmed);
    CHECK(v.ranks == model::RankSet{2});
    CHECK(v.sentence ==
          "hang: the GPU of rank 2 failed: the kernel reported Xid 79 (GPU has fallen off "
          "the bus) of GPU 0000:3b:00 at 49 s; the rank has been in step (train.py:44: all_reduce) for 10 s; "
          "ranks "
          "0-1,3 wait for it in all_reduce (train.py:44)");
  }
}

TEST_CASE("a hang: an error of another process, of a GPU without ranks, of long ago, or a harmless one") {
  for (const model::KernelEvent& other :
       {xid(79, 49, 999), xid(79, 49), xid(79, 60 - 10 - 61, Job::pid_of(2)), xid(63, 49, Job::pid_of(2))}) {
    CHECK(diagnose(hung_with(other).facts).id == "hang.all_waiting");
  }
  Job job = hung_with(xid(79, 49, Job::pid_of(2)));
  job.facts.kernel.host_pids = false;  // the pids are those of a container
  CHECK(diagnose(job.facts).id == "hang.all_waiting");
}

TEST_CASE("a rank that the kernel killed for want of memory is told so, with what to do") {
  struct Row {
    bool memory_limit;
    std::string_view words;
    std::string_view next;
  };
  for (const Row& row :
       {Row{true,
            "was killed by SIGKILL (out of memory: the kernel killed it at the memory limit of its "
            "control group) after 12 s",
            "give the job more memory"},
        Row{false,
            "was killed by SIGKILL (out of memory: the kernel killed it because the host had none "
            "left) after 12 s",
            "which processes use the host's memory"}}) {
    Job job = killed();
    job.facts.kernel.events = {oom_kill(Job::pid_of(1), 12.2, row.memory_limit)};
    const Verdict v = diagnose(job.facts);
    CHECK(v.id == "crash.killed");
    CHECK_MESSAGE(v.sentence.find(row.words) != std::string::npos, v.sentence);
    CHECK(v.next.text.find(row.next) != std::string::npos);
    CHECK(v.next.command.empty());
    CHECK(speaks_of(v, "the kernel killed python3 (pid"));
  }
}

TEST_CASE("a rank that the kernel killed for want of memory is told with the line that allocated it") {
  constexpr int64_t kMiB = int64_t{1} << 20;
  Job job = killed();
  job.facts.kernel.events = {oom_kill(Job::pid_of(1), 12.2, true)};
  job.facts.run.memory = {.path = "/sys/fs/cgroup/other"};
  job.leaked(1, 900 * kMiB, 400 * kMiB);
  const Verdict v = diagnose(job.facts);
  CHECK(v.memory.bytes == 900 * kMiB);
  CHECK(v.where.line == 55);
  CHECK_MESSAGE(
      v.sentence.find("900 MiB that were allocated at append_loss (train.py:55), 4.0 MiB more in each "
                      "step") != std::string::npos,
      v.sentence);
  CHECK_MESSAGE(
      v.title.starts_with("rank 1 ran out of memory: 900 MiB allocated at append_loss (train.py:55)"),
      v.title);
  CHECK(v.next.text.find("append_loss (train.py:55) allocates") != std::string::npos);
  CHECK_FALSE(speaks_of(v, "the kernel killed no process of"));
  Job steady = killed();
  steady.facts.kernel.events = job.facts.kernel.events;
  steady.leaked(1, 900 * kMiB, 4 * kMiB);
  CHECK(diagnose(steady.facts).memory.bytes == 900 * kMiB);
  CHECK(diagnose(steady.facts).memory.grown_a_step == 0);
  CHECK(diagnose(steady.facts).next.text.find("look at what append_loss (train.py:55) keeps") !=
        std::string::npos);
  job.facts.kernel.events.clear();
  CHECK_FALSE(diagnose(job.facts).memory.present());
  job.facts.run.memory.oom_kills = 1;  // the counter of a container, without the kernel's log
  CHECK(diagnose(job.facts).memory.bytes == 900 * kMiB);
}

TEST_CASE("the kernel kills the largest process: the rank that has filled the memory is named") {
  constexpr int64_t kMiB = int64_t{1} << 20;
  const auto judged = [](int64_t of_killed, int64_t of_other, int64_t grown) {
    Job job = killed();
    job.facts.kernel.events = {oom_kill(Job::pid_of(1), 12.2, true)};
    job.leaked(1, of_killed, 0).leaked(2, of_other, grown);
    return diagnose(job.facts);
  };
  Verdict v = judged(2 * kMiB, 548 * kMiB, 400 * kMiB);
  CHECK(v.ranks == model::RankSet{2});
  CHECK_MESSAGE(v.sentence.find("rank 1 was killed by SIGKILL (out of memory: ") != std::string::npos,
                v.sentence);
  CHECK_MESSAGE(
      v.sentence.find("; rank 2 holds 548 MiB that were allocated at append_loss (train.py:55), 4.0 "
                      "MiB more in each step, each of the others at most 2.0 MiB") != std::string::npos,
      v.sentence);
  CHECK(v.title.starts_with("rank 2 ran out of memory: 548 MiB allocated at append_loss"));
  CHECK(v.next.text.find("append_loss (train.py:55) allocates") != std::string::npos);
  CHECK(judged(0, 548 * kMiB, 0).sentence.find("; no other rank holds any of it") != std::string::npos);
  // Without growth, as a large table that one rank alone has loaded.
  v = judged(2 * kMiB, 548 * kMiB, 0);
  CHECK(v.ranks == model::RankSet{2});
  CHECK(v.next.text.find("look at what append_loss (train.py:55) keeps, which is 548 MiB") !=
        std::string::npos);
  // Each rank holds as much.
  v = judged(500 * kMiB, 548 * kMiB, 0);
  CHECK(v.ranks == model::RankSet{1});
  CHECK(v.memory.bytes == 500 * kMiB);
}

TEST_CASE("a worker that the kernel killed for want of memory is the cause of its rank's exception") {
  constexpr int64_t kMiB = int64_t{1} << 20;
  const auto missed = [](double died_s) {
    Job job = killed();
    for (auto& p : job.facts.run.processes) {
      if (p.rank == 1) {
        p.death.wait_status = base::WaitStatus(1 << 8);
      }
    }
    model::PythonException lost;
    lost.pid = Job::pid_of(1);
    lost.rank = 1;
    lost.at_s = 12.4;
    lost.chain.push_back({.type = "ConnectionResetError", .message = "[Errno 104] Connection reset by peer"});
    job.facts.run.exceptions.push_back(lost);
    job.facts.run.processes.push_back({.pid = 900, .role = model::ProcessRole::worker, .rank = 1});
    job.facts.run.processes.back().death = {
        .happened = true, .at_s = died_s, .wait_status = base::WaitStatus(SIGKILL)};
    job.facts.kernel.events = {oom_kill(900, died_s, true)};
    job.leaked(1, 900 * kMiB, 400 * kMiB);
    return diagnose(job.facts);
  };
  // The connection is closed before the end of the process can be seen.
  for (const double died_s : {12.3, 12.45}) {
    const Verdict v = missed(died_s);
    CHECK_MESSAGE(
        v.sentence.find("; before it, its process (pid 900) was killed by SIGKILL (out of memory: the kernel "
                        "killed it at the memory limit of its control group); 900 MiB were allocated at "
                        "append_loss (train.py:55), 4.0 MiB more in each step") != std::string::npos,
        v.sentence);
    CHECK_MESSAGE(v.title.starts_with(
                      "a worker of rank 1 ran out of memory: 900 MiB allocated at append_loss (train.py:55)"),
                  v.title);
    CHECK(v.where.line == 55);
    CHECK(v.next.text.find("append_loss (train.py:55) allocates") != std::string::npos);
  }
  CHECK(missed(14).sentence.find("pid 900") == std::string::npos);
}

TEST_CASE("an OOM kill of another process, of another time or of another host explains no death") {
  model::KernelEvent elsewhere = oom_kill(Job::pid_of(1), 12.2);
  elsewhere.node = 1;
  for (const model::KernelEvent& other : {oom_kill(Job::pid_of(0), 12.2), oom_kill(Job::pid_of(1), 40),
                                          oom_kill(Job::pid_of(1), 12.5 - 61), elsewhere}) {
    Job job = killed();
    job.facts.kernel.events = {other};
    const Verdict v = diagnose(job.facts);
    CHECK(v.sentence.find("memory") == std::string::npos);
    CHECK(speaks_of(v, "the host was out of memory"));
    CHECK_FALSE(v.next.command.empty());
  }
}

TEST_CASE("an OOM kill at the limit of another job's control group is left out") {
  struct Row {
    base::Pid pid;
    bool host_pid;
    bool memory_limit;
    bool told;
  };
  for (const Row& row : {Row{77, true, true, false}, Row{Job::pid_of(0), true, true, true},
                         Row{77, false, true, true},  // in a container, whose pids are others than the log's
                         Row{0, true, true, true}, Row{77, true, false, true}}) {
    Job job = killed();
    job.facts.kernel.events = {oom_kill(row.pid, 12.2, row.memory_limit)};
    job.facts.kernel.events[0].host_pid = row.host_pid;
    CAPTURE(row.pid);
    CHECK(speaks_of(diagnose(job.facts), "the kernel killed") == row.told);
  }
}

TEST_CASE("the kernel's other events are listed with their time") {
  Job job = aborted();
  job.facts.kernel.events = {
      oom_kill(77, 5),
      {.kind = KernelEventKind::hung_task, .at_s = 6, .pid = 78, .comm = "nfsd", .text = "x"},
      xid(13, 7, 9999),
      xid(99999, 8, 9999),
      xid(79, 9, 9999)};
  const Verdict v = diagnose(job.facts);
  CHECK(says_of_surroundings(v, "at 5 s: the kernel killed python3 (pid 77): the host was out of memory"));
  CHECK(says_of_surroundings(
      v, "at 6 s: the kernel reported that nfsd (pid 78) has been in uninterruptible sleep for minutes"));
  CHECK(says_of_surroundings(
      v,
      "at 7 s: the kernel reported Xid 13 (exception in a kernel) of GPU 0000:3b:00, in a process "
      "(pid 9999)"));
  CHECK(says_of_surroundings(
      v, "at 8 s: the kernel reported Xid 99999 of GPU 0000:3b:00, in a process (pid 9999)"));
  CHECK(says_of_surroundings(v, "and 1 later events of the kernel: see kernel.json"));
}

TEST_CASE("unhealthy GPUs are listed, healthy ones are not") {
  Job job(2);
  job.all(in_all_reduce()).rank(1, in_sleep()).hang_dump();
  job.facts.gpus.devices = {
      {.index = 0,
       .name = "H100",
       .sm_clock_mhz = 345,
       .sm_clock_max_mhz = 1980,
       .throttle_reasons = {model::ThrottleReason::power_cap, model::ThrottleReason::hardware_thermal},
       .temperature_c = 92},
      {.index = 1,
       .throttle_reasons = {model::ThrottleReason::idle, model::ThrottleReason::power_cap},
       .memory_used_bytes = 70,
       .memory_total_bytes = 80,
       .ecc_corrected = 5,
       .ecc_uncorrected = 0},
      {.index = 2,
       .memory_used_bytes = int64_t{80} << 30,
       .memory_total_bytes = int64_t{80} << 30,
       .ecc_uncorrected = 2,
       .remap_pending = true,
       .nvlink = {{.link = 4, .replays = 9, .recoveries = 3}}},
      {.index = 3, .problem = "GPU is lost"}};
  const Verdict v = diagnose(job.facts);
  CHECK(v.kind == model::VerdictKind::hang);
  CHECK(says_of_surroundings(v, "GPU 0 (H100): slowed down by heat (92 °C, 345 of 1980 MHz)"));
  CHECK_FALSE(speaks_of(v, "GPU 1"));
  CHECK(says_of_surroundings(
      v,
      "GPU 2: 2 uncorrectable memory errors since the driver was loaded; broken memory that is replaced at "
      "the next reset; memory is full (80.0 of 80.0 GiB); NVLink 4 had to recover 3 times"));
  CHECK(says_of_surroundings(v, "GPU 3: GPU is lost"));
}

TEST_CASE("a run without trouble does not mention its surroundings") {
  Job job(2);
  job.facts.gpus.devices = {{.index = 0, .problem = "GPU is lost"}};
  job.died(0, 0, 10).died(1, 0, 10).ended(0);
  CHECK(diagnose(job.facts).evidence.empty());
}

TEST_CASE("a link that was lost before the stall is evidence, one that was lost long before is not") {
  for (const bool before : {true, false}) {
    CAPTURE(before);
    Job job(4);
    job.all(in_all_reduce()).rank(2, in_sleep()).hang_dump();
    job.facts.run.started_wall_ns = 1'700'000'000'000'000'000;
    job.facts.run.stalls.back().since_s = 1000;
    const double lost_s = before ? 990 : 500;
    job.facts.machines = {
        history_of(model::MachineFact::link_downed, {{2, 7}, {lost_s, 7}, {lost_s + 5, 8}, {1010, 8}})};
    CHECK(speaks_of(diagnose(job.facts), "mlx5_0/1, losses of the link: 1") == before);
  }
}

TEST_CASE("that a rank had no CPU is no evidence once it sleeps and wants none") {
  model::MachineHistory machine;
  for (int i = 0; i < 6; ++i) {
    model::MachineReading reading;
    reading.values = {{.fact = model::MachineFact::no_cpu,
                       .object = "cpus 1",
                       .value = 1.9e6 * i,
                       .detail = {},
                       .rank = 2}};
    reading.intruders = {{.rank = 2,
                          .relation = model::CpuRelation::stranger,
                          .pid = 4711,
                          .command = "stress-ng",
                          .group = "/user.slice",
                          .watched_s = 2,
                          .cpu_s = 1.84}};
    machine.add(reading, 1'700'000'000'000'000'000 + i * INT64_C(5'000'000'000));
  }
  Job job(4);
  job.all(in_all_reduce()).rank(2, in_sleep()).hang_dump();
  job.facts.run.started_wall_ns = 1'700'000'000'000'000'000;
  job.facts.run.elapsed_s = 30;
  job.facts.run.stalls.back().since_s = 12;
  job.facts.machines = {machine};
  job.seen(2).state = 'R';
  job.seen(2).main_queue_share = 0.4;
  CHECK(speaks_of(diagnose(job.facts), "had no CPU for"));
  job.seen(2).state = 'S';
  job.seen(2).main_queue_share = 0;
  CHECK_FALSE(speaks_of(diagnose(job.facts), "had no CPU for"));
}

TEST_CASE("a verdict says that the kernel's log could not be read") {
  Job job = killed();
  CHECK_FALSE(speaks_of(diagnose(job.facts), "kernel's messages"));
  job.facts.kernel_gap = "the kernel's log may not be read (kernel.dmesg_restrict)";
  CHECK(says_of_surroundings(diagnose(job.facts),
                             "the kernel's messages are missing: the kernel's log may not be read "
                             "(kernel.dmesg_restrict)"));
}
