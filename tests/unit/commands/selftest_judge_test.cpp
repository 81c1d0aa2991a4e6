#include "commands/selftest/host.h"
#include "commands/selftest/judge.h"
#include "commands/selftest/quiet_process.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

Expected a_mismatch() {
  return {.ids = {"hang.mismatch", "hang.order"},
          .ranks = {1},
          .places = {{.mark = "m", .file = "job.py", .function = "reduce", .line = 12}},
          .words = {"all_reduce", "1000"}};
}

model::Verdict its_verdict() {
  model::Verdict out;
  out.id = "hang.mismatch";
  out.ranks = {1};
  out.where = {.function = "reduce", .file = "/usr/lib/xpurun/selftest/job.py", .line = 12};
  out.sentence = "hang: rank 1 called all_reduce with 1000 elements";
  return out;
}

}  // namespace

TEST_CASE("selftest: the expected verdict has no differences") {
  CHECK(differences(a_mismatch(), its_verdict()).empty());
  model::Verdict closer = its_verdict();
  closer.id = "hang.order";
  CHECK(differences(a_mismatch(), closer).empty());
}

TEST_CASE("selftest: every difference is reported") {
  model::Verdict given = its_verdict();
  const auto only = [&] {
    const auto all = differences(a_mismatch(), given);
    return all.size() == 1 ? all[0] : std::to_string(all.size());
  };
  SUBCASE("id") {
    given.id = "hang.mismatch_size";
    CHECK(only() == "the id is hang.mismatch_size instead of hang.mismatch or hang.order");
  }
  SUBCASE("an innocent rank is blamed") {
    given.ranks = {0, 1};
    CHECK(only() == "ranks 0-1 instead of rank 1");
  }
  SUBCASE("no rank is blamed") {
    given.ranks = {};
    CHECK(only() == "no rank instead of rank 1");
  }
  SUBCASE("another line") {
    given.where.line = 13;
    CHECK(only() == "reduce (job.py:13) instead of reduce (job.py:12)");
  }
  SUBCASE("another file at another position") {
    given.where.file = "/x/other.py";
    CHECK(only() == "reduce (other.py:12) instead of reduce (job.py:12)");
  }
  SUBCASE("no position") {
    given.where = {};
    CHECK(only() == "no place instead of reduce (job.py:12)");
  }
  SUBCASE("a word") {
    given.sentence = "hang: rank 1 called all_reduce";
    CHECK(only() == "the sentence lacks '1000'");
  }
  SUBCASE("a word of the evidence") {
    Expected explained = a_mismatch();
    explained.evidence = {"the last line"};
    CHECK(differences(explained, given) ==
          std::vector<std::string>{"sentence and evidence lack 'the last line'"});
    given.evidence = {"standard error: the last line"};
    CHECK(differences(explained, given).empty());
  }
  SUBCASE("the signal") {
    Expected killed = a_mismatch();
    killed.signal = 9;
    given.signal = 11;
    CHECK(differences(killed, given) == std::vector<std::string>{"signal 11 instead of 9"});
  }
}

TEST_CASE("selftest: a verdict in short") {
  CHECK(short_text(a_mismatch()) == "hang, rank 1, reduce");
  model::Verdict given = its_verdict();
  given.ranks = {0, 1, 2};
  given.where = {};
  CHECK(short_text(given) == "hang, ranks 0-2");
  CHECK(short_text(Expected{.ids = {"none.finished"}}) == "none");
}

TEST_CASE("selftest: the reason for skipping an injection") {
  const Injection* plain = find_injection("never-enters");
  const Injection* kernel = find_injection("endless-kernel");
  const Injection* four = find_injection("nested-groups");
  REQUIRE(plain != nullptr);
  REQUIRE(kernel != nullptr);
  const Injection* slow = find_injection("slow-loader");
  REQUIRE(four != nullptr);
  REQUIRE(slow != nullptr);
  const TestHost cpu{.torch = "2.11.0", .gloo = true};
  const TestHost gpus{.torch = "2.11.0", .gloo = true, .nccl = true, .gpus = 2};
  CHECK(reason_to_skip(*plain, Device::cpu, cpu).empty());
  CHECK(reason_to_skip(*kernel, Device::cpu, cpu) == "on GPUs only (--gpu)");
  CHECK(reason_to_skip(*plain, Device::gpu, cpu) == "torch has no NCCL");
  CHECK(reason_to_skip(*plain, Device::gpu, gpus).empty());
  CHECK(reason_to_skip(*kernel, Device::gpu, gpus).empty());
  CHECK(reason_to_skip(*four, Device::gpu, gpus).empty());
  const TestHost one{.torch = "2.11.0", .gloo = true, .nccl = true, .gpus = 1};
  CHECK(reason_to_skip(*plain, Device::gpu, one).empty());
  CHECK(reason_to_skip(*slow, Device::gpu, one) == "needs 2 GPUs, torch sees 1");
  CHECK(reason_to_skip(*plain, Device::gpu, {.torch = "2.11.0", .nccl = true}) == "torch sees no GPU");
  CHECK(reason_to_skip(*plain, Device::cpu, {.problem = "ModuleNotFoundError: No module named 'torch'"}) ==
        "no torch: ModuleNotFoundError: No module named 'torch'");
  CHECK(reason_to_skip(*plain, Device::cpu, {.torch = "2.11.0"}) == "torch has no gloo");
}

TEST_CASE("selftest: the job's description of the host") {
  const auto host =
      test_host_from_json(R"({"python": "3.12.1", "torch": "2.11.0", "gloo": true, "gpus": 2})");
  REQUIRE(host);
  CHECK(host->torch == "2.11.0");
  CHECK(host->gloo);
  CHECK(!host->nccl);
  CHECK(host->gpus == 2);
  CHECK(!test_host_from_json("Traceback"));
}

TEST_CASE("selftest: the job's environment has no variables of another job") {
  const auto env = job_environment(
      {"PATH=/bin", "RANK=3", "SLURM_PROCID=1", "SLURM_JOB_ID=7", "MASTER_PORT=1", "XPURUN_HANG_TIMEOUT=1s",
       "XPU_TIMER_X=1", "OMPI_COMM_WORLD_RANK=1", "XDG_CONFIG_HOME=/home/me"},
      "/scratch");
  const auto has = [&](std::string_view variable) {
    return std::find(env.begin(), env.end(), variable) != env.end();
  };
  CHECK(env.size() == 4);
  CHECK(has("PATH=/bin"));
  CHECK(has("TMPDIR=/scratch"));
  CHECK(has("XDG_CONFIG_HOME=/scratch"));
  CHECK(has("PYTHONDONTWRITEBYTECODE=1"));
}
