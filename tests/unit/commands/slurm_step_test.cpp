#include "commands/attach/slurm_step.h"

#include "tests/unit/launcher/fake_proc.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::launcher;
using xpurun::test::FakeProc;

namespace {

using Env = std::map<std::string, std::string>;

std::string step_in(std::string_view cgroup) {
  const auto step = step_of_cgroup(cgroup);
  return step ? to_text(*step) : "";
}

std::string step_by(const Env& env) {
  const auto step = step_of_environment(env);
  return step ? to_text(*step) : "";
}

}  // namespace

TEST_CASE("a Slurm step as typed") {
  const auto read = [](std::string_view word) {
    const auto step = parse_slurm_step(word);
    return step ? to_text(*step) : step.error().id;
  };
  CHECK(read("4242") == "4242");
  CHECK(read("4242.0") == "4242.0");
  CHECK(read("4242.batch") == "4242.batch");
  CHECK(read("4242.4294967291") == "4242.batch");
  for (const char* wrong : {"", ".", ".0", "4242.", "4242.x", "4242_1", "4242.0.1", "-1", "4242 ", "x.0",
                            "12345678901", "4242.-1"}) {
    CAPTURE(wrong);
    CHECK(read(wrong) == "E-USAGE");
  }
}

TEST_CASE("the step of a control group, in both versions of the kernel's interface") {
  CHECK(step_in("0::/system.slice/slurmstepd.scope/job_4242/step_0/user/task_1") == "4242.0");
  CHECK(step_in("0::/system.slice/n1_slurmstepd.scope/job_4242/step_batch/user/task_0") == "4242.batch");
  CHECK(step_in("0::/../job_4242/step_extern") == "4242.extern");
  CHECK(step_in("12:freezer:/\n4:memory:/slurm_n1/uid_1000/job_7/step_3/task_0\n0::/init.scope\n") == "7.3");
  for (const char* none :
       {"", "0::/", "0::/user.slice/user-0.slice", "0::/slurm/uid_0/job_7", "0::/job_x/step_0",
        "0::/job_7/step_", "0::/job_7/cluster/step_0", "0::/step_0/job_7", "0::/my_job_7/step_0"}) {
    CAPTURE(none);
    CHECK(step_in(none).empty());
  }
}

TEST_CASE("the step of an environment") {
  CHECK(step_by({{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}}) == "7.0");
  CHECK(step_by({{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "4294967290"}}) == "7.interactive");
  CHECK(step_by({{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}}) == "7.batch");
  CHECK(step_by({{"SLURM_JOB_ID", "7"}}).empty());  // salloc's shell
  CHECK(step_by({{"SLURM_STEP_ID", "0"}}).empty());
  CHECK(step_by({{"SLURM_JOB_ID", "x"}, {"SLURM_STEP_ID", "0"}}).empty());
}

TEST_CASE("a job without a step means all of its steps but extern") {
  const SlurmStep all{.job = "7", .step = ""};
  CHECK(is_part_of({.job = "7", .step = "0"}, all));
  CHECK(is_part_of({.job = "7", .step = "batch"}, all));
  CHECK_FALSE(is_part_of({.job = "7", .step = "extern"}, all));
  CHECK_FALSE(is_part_of({.job = "70", .step = "0"}, all));
  CHECK(is_part_of({.job = "7", .step = "extern"}, {.job = "7", .step = "extern"}));
  CHECK_FALSE(is_part_of({.job = "7", .step = "1"}, {.job = "7", .step = "0"}));
}

TEST_CASE("the table of scontrol listpids") {
  constexpr std::string_view kTable =
      "PID      JOBID    STEPID   LOCALID GLOBALID\n"
      "4711     7        0        0       0\n"
      "4712     7        0        -       -\n"
      "-1       7        0        1       1\n"
      "4800     7        1        0       0\n"
      "4900     7        extern   0       0\n"
      "4711     8        0        0       0\n"
      "torn\n";
  using Pids = std::vector<base::Pid>;
  CHECK(listed_processes(kTable, {.job = "7", .step = "0"}) == Pids{4711, 4712});
  CHECK(listed_processes(kTable, {.job = "7", .step = ""}) == Pids{4711, 4712, 4800});
  CHECK(listed_processes("99 7 7.2 0 0", {.job = "7", .step = "2"}) == Pids{99});
  CHECK(listed_processes("slurm_load_step: Invalid job id", {.job = "7", .step = ""}).empty());
}

TEST_CASE("only the outermost processes of a step are watched, and never xpurun itself") {
  FakeProc proc;
  using Pids = std::vector<base::Pid>;
  proc.add(5000100, 1, "slurmstepd");
  proc.add(5000110, 5000100, "bash");  // the batch script, which runs xpurun and torchrun
  proc.add(5000120, 5000110, "xpurun");
  proc.add(5000130, 5000110, "torchrun");
  proc.add(5000131, 5000130, "python3");
  proc.add(5000105, 5000100, "python3");  // started last, in another step
  const Pids all{5000105, 5000131, 5000130, 5000120, 5000110, 5000100, 4000999};
  CHECK(outermost(proc.proc(), all, 5000120) == Pids{5000130, 5000105});
  CHECK(outermost(proc.proc(), all, 5000999) == Pids{5000110, 5000105});
  CHECK(outermost(proc.proc(), {5000131, 5000131}, 5000120) == Pids{5000131});
  CHECK(outermost(proc.proc(), {}, 5000120).empty());
}

TEST_CASE("processes of a step are found by their environment") {
  FakeProc proc;
  proc.add(5000100, 1, "slurmstepd");
  proc.add(5000101, 5000100, "python3", "SLURM_JOB_ID=7 SLURM_STEP_ID=0");
  proc.add(5000102, 5000100, "python3", "SLURM_JOB_ID=7 SLURM_STEP_ID=0");
  proc.add(5000103, 5000102, "python3", "");  // has lost it, but its parent has not
  proc.add(5000104, 5000100, "python3", "SLURM_JOB_ID=7 SLURM_STEP_ID=1");
  const auto found = processes_of_step({.job = "7", .step = "0"}, proc.proc());
  REQUIRE(found);
  CHECK(*found == std::vector<base::Pid>{5000101, 5000102});
  CHECK(processes_of_step({.job = "7", .step = ""}, proc.proc())->size() == 3);
}
