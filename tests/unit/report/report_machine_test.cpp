#include "report/run/findings.h"
#include "report/run/occurrences.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace xpurun;
using namespace xpurun::report;
using model::MachineFact;
using model::MachineHistory;
using model::MachineReading;
using model::MachineValue;

namespace {

constexpr int64_t kRunStart = 1'700'000'000'000'000'000;

int64_t at_second(double seconds) {
  return kRunStart + static_cast<int64_t>(seconds * 1e9);
}

RunReport report_of(MachineHistory history) {
  RunReport out;
  out.run.started_wall_ns = kRunStart;
  out.run.host = "a";
  out.verdict.kind = model::VerdictKind::none;
  out.machines.push_back(std::move(history));
  return out;
}

MachineHistory read_twice(const std::vector<MachineValue>& before, const std::vector<MachineValue>& after,
                          std::vector<model::RankPlace> places = {}) {
  MachineHistory out;
  for (int i = 0; i < 2; ++i) {
    out.add({.values = before, .places = places, .missing = {}}, at_second(2 + 5 * i));
  }
  for (int i = 2; i < 5; ++i) {
    out.add({.values = after, .places = places, .missing = {}}, at_second(2 + 5 * i));
  }
  return out;
}

const Finding* found(const std::vector<Finding>& all, std::string_view id) {
  const auto it = std::find_if(all.begin(), all.end(), [&](const Finding& f) { return f.id == id; });
  return it == all.end() ? nullptr : &*it;
}

MachineValue value(MachineFact fact, const std::string& object, double number, std::string detail = {}) {
  return {.fact = fact, .object = object, .value = number, .detail = std::move(detail)};
}

}  // namespace

TEST_CASE("machine findings: a healthy host has none") {
  const std::vector<MachineValue> healthy = {
      value(MachineFact::space, "/", 0.8), value(MachineFact::symbol_errors, "mlx5_0/1", 12),
      value(MachineFact::port_down, "mlx5_1/1", 1, "1: DOWN"), value(MachineFact::mount_silent, "/", 0),
      value(MachineFact::tcp_segments, "host", 1000)};
  const auto findings = find_findings(
      report_of(read_twice(healthy, healthy, {{.rank = 0, .pid = 7, .cpus = "0-3", .omp_threads = 4}})));
  CHECK(findings.size() == 1);  // the verdict
}

TEST_CASE("machine findings: a disk that is nearly full, before a write fails") {
  const auto findings = find_findings(report_of(
      read_twice({value(MachineFact::space, "/ckpt", 0.90)},
                 {value(MachineFact::space, "/ckpt", 0.97, "1 GiB of 30 GiB are free in /ckpt (ext4)")})));
  const Finding* f = found(findings, "machine.space");
  REQUIRE(f != nullptr);
  CHECK(f->title == "/ckpt is 97 % full (1 GiB of 30 GiB are free in /ckpt (ext4))");
  CHECK(f->severity == Severity::warning);
  CHECK(f->evidence.front().find("(7.0 s in)") != std::string::npos);
}

TEST_CASE("machine findings: a link that recovers again and again") {
  MachineHistory history;
  for (int i = 0; i < 4; ++i) {
    history.add({.values = {value(MachineFact::link_recoveries, "mlx5_0/1", 100 + 2 * i)},
                 .places = {},
                 .missing = {}},
                at_second(5 * i + 2));
  }
  const auto findings = find_findings(report_of(std::move(history)));
  const Finding* f = found(findings, "machine.link_recoveries");
  REQUIRE(f != nullptr);
  CHECK(f->title == "mlx5_0/1, recoveries of the link: 6, again and again");
}

TEST_CASE("machine findings: pressure counts once it lasts") {
  MachineHistory history;
  for (int i = 0; i < 2; ++i) {  // 100 % of 5 s
    history.add(
        {.values = {value(MachineFact::memory_pressure, "/job", 5e6 * i)}, .places = {}, .missing = {}},
        at_second(2 + 5 * i));
  }
  CHECK(found(find_findings(report_of(history)), "machine.memory_pressure") == nullptr);
  history.add({.values = {value(MachineFact::memory_pressure, "/job", 8e6)}, .places = {}, .missing = {}},
              at_second(12));
  const auto findings = find_findings(report_of(history));
  const Finding* f = found(findings, "machine.memory_pressure");
  REQUIRE(f != nullptr);
  CHECK(f->title == "all threads of control group /job waited for memory for 100 % of the time");
}

TEST_CASE("machine findings: a stranger on the CPUs of a rank, but not the job itself") {
  const model::Intruder stranger{.rank = 3,
                                 .relation = model::CpuRelation::stranger,
                                 .pid = 4711,
                                 .command = "stress-ng",
                                 .group = "/user.slice",
                                 .cpus = 1,
                                 .watched_s = 2,
                                 .ready_s = 1,
                                 .cpu_s = 1.84};
  struct Case {
    model::Intruder intruder;
    std::string title;  // empty: no finding
  };
  const std::string ready = "rank 3 was ready to run and had no CPU for 38 % of the time; ";
  std::vector<Case> cases = {{stranger, ready + "stress-ng (pid 4711, /user.slice) had 92 % of its CPUs"}};
  cases.push_back({stranger, ready + "stress-ng (7 processes, /user.slice) had 92 % of its CPUs"});
  cases.back().intruder.processes = 7;
  cases.push_back({stranger, ready + "processes outside of this container had 92 % of its CPUs"});
  cases.back().intruder.relation = model::CpuRelation::unseen;
  model::Intruder brief = stranger;  // a larger share, but only for a moment
  brief.command = "cron";
  brief.watched_s = 0.5;
  brief.cpu_s = 0.49;
  cases.push_back({stranger, ""});
  cases.back().intruder.relation = model::CpuRelation::other_rank;
  cases.push_back({stranger, ""});
  cases.back().intruder.cpu_s = 0.2;  // 10 % of the CPU
  for (const Case& c : cases) {
    CAPTURE(c.title);
    MachineHistory history;
    for (int i = 0; i < 5; ++i) {
      MachineValue ready_time = value(MachineFact::no_cpu, "cpus 3", 1.9e6 * i);
      ready_time.rank = 3;
      MachineReading reading{.values = {ready_time}, .places = {}, .missing = {}};
      if (i == 2) {
        reading.intruders.push_back(c.intruder);
        if (!c.title.empty()) {
          reading.intruders.push_back(brief);
        }
      }
      history.add(reading, at_second(2 + 5 * i));
    }
    const auto findings = find_findings(report_of(history));
    const Finding* f = found(findings, "machine.no_cpu");
    REQUIRE((f != nullptr) == !c.title.empty());
    if (f != nullptr) {
      CHECK(f->title == c.title);
      CHECK(f->command == "ps -fp 4711");
      CHECK_FALSE(f->next.empty());
    }
  }
}

TEST_CASE("machine findings: mistakes in the placement of the ranks") {
  std::vector<model::RankPlace> places = {{.rank = 0, .pid = 7, .cpus = "3", .omp_threads = 8, .runnable = 9},
                                          {.rank = 1,
                                           .pid = 8,
                                           .cpus = "3",
                                           .omp_threads = 8,
                                           .runnable = 1,
                                           .gpu = "0000:3b:00.0",
                                           .gpu_cpus = "8-15"}};
  const auto findings = find_findings(report_of(read_twice({}, {}, places)));
  REQUIRE(found(findings, "cpu.omp_threads") != nullptr);
  CHECK(found(findings, "cpu.omp_threads")->title ==
        "OMP_NUM_THREADS asks for more threads (16) than CPUs are allowed (1)");
  REQUIRE(found(findings, "cpu.shared_core") != nullptr);
  CHECK(found(findings, "cpu.shared_core")->title == "ranks 0-1 are pinned to one CPU, number 3");
  REQUIRE(found(findings, "cpu.crowded") != nullptr);
  CHECK(found(findings, "cpu.crowded")->title.starts_with("rank 0:"));
  REQUIRE(found(findings, "cpu.far_device") != nullptr);
  CHECK(found(findings, "cpu.far_device")->evidence.front().find("8-15") != std::string::npos);
}

TEST_CASE("occurrences: all sources in the order of one clock, and what could not be seen") {
  RunReport report = report_of(read_twice({value(MachineFact::link_downed, "mlx5_0/1", 0)},
                                          {value(MachineFact::link_downed, "mlx5_0/1", 1)}));
  report.verdict.kind = model::VerdictKind::crash;
  report.kernel_gap = "the kernel's log may not be read (kernel.dmesg_restrict)";
  model::ProcessRecord rank;
  rank.role = model::ProcessRole::rank;
  rank.rank = 3;
  rank.death = {.happened = true, .at_s = 20, .wait_status = base::WaitStatus(9)};
  report.run.processes.push_back(rank);
  report.run.stalls.push_back({.n = 1, .ranks = {1}, .at_s = 18, .since_s = 8});
  const auto findings = find_findings(report);
  const Finding* f = found(findings, "order");
  REQUIRE(f != nullptr);
  REQUIRE(f->evidence.size() == 4);
  CHECK(f->evidence[0].find("mlx5_0/1, losses of the link: 1") != std::string::npos);
  CHECK(f->evidence[1].find("the last progress of rank 1") != std::string::npos);
  CHECK(f->evidence[2].find("rank 3 was ended by SIGKILL") != std::string::npos);
  CHECK(f->evidence[3].find("kernel.dmesg_restrict") != std::string::npos);
  report.machines.clear();
  CHECK(found(find_findings(report), "order") == nullptr);
}

TEST_CASE("occurrences: NVML's facts, and processes that the kernel killed, by counter or else by number") {
  RunReport report = report_of(
      read_twice({value(MachineFact::oom_kills, "/job", 2)}, {value(MachineFact::oom_kills, "/job", 3)}));
  report.verdict.kind = model::VerdictKind::crash;
  report.run.elapsed_s = 30;
  report.run.memory = {.path = "/sys/fs/cgroup/job", .oom_kills = 1, .limit_bytes = 0, .used_bytes = 0};
  model::GpuHealth gpus;
  gpus.counted =
      read_twice({value(MachineFact::xid, "GPU 3 Xid 79", 0)}, {value(MachineFact::xid, "GPU 3 Xid 79", 1)});
  add_gpu_facts(report.machines.front(), gpus);
  const auto lines = occurrences_of(report);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].at_s <= lines[1].at_s);
  CHECK(lines[0].text == "the kernel killed a process of the control group /job for lack of memory");
  CHECK(lines[1].text.find("Xid 79") != std::string::npos);
  // Killed after the last reading.
  report.machines.clear();
  const auto late = occurrences_of(report);
  REQUIRE(late.size() == 1);
  CHECK(late[0].at_s == 30);
  CHECK(late[0].text.starts_with("until then, the kernel killed 1 process of the memory control group"));
  // The kernel log has the time.
  report.kernel.events.push_back({.kind = model::KernelEventKind::oom_kill, .at_s = 12, .pid = 7});
  CHECK(occurrences_of(report).size() == 1);
  // The limit of another control group, whose process is none of this job.
  report.kernel.events.push_back({.kind = model::KernelEventKind::oom_kill,
                                  .at_s = 13,
                                  .pid = 8,
                                  .memory_limit = true,
                                  .host_pid = true});
  CHECK(occurrences_of(report).size() == 1);
}

TEST_CASE("a signal that a process has sent is no crash in the list of what happened") {
  RunReport report = report_of(MachineHistory());
  report.run.crashes = {{.pid = 10, .rank = 0, .signal = 15, .sender = 77, .at_s = 4},
                        {.pid = 11, .rank = 1, .signal = 11, .at_s = 5},
                        {.pid = 12, .rank = 2, .signal = 6, .sender = 12, .at_s = 6}};  // abort()
  std::vector<std::string> texts;
  for (const Occurrence& one : occurrences_of(report)) {
    texts.push_back(one.text);
  }
  CHECK(texts == std::vector<std::string>{"rank 0 received SIGTERM from process 77",
                                          "rank 1 crashed with SIGSEGV", "rank 2 crashed with SIGABRT"});
}
