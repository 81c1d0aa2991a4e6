#include "launcher/processes/child_waits.h"
#include "launcher/processes/identity.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::launcher;

TEST_CASE("ranks are identified by their launcher's variables, in order of precedence") {
  using EnvMap = std::map<std::string, std::string>;
  const auto torchrun =
      identity_from(EnvMap{{"RANK", "5"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "8"}, {"SLURM_PROCID", "0"}});
  REQUIRE(torchrun);
  CHECK(*torchrun == Identity{.kind = IdentityKind::torchrun, .rank = 5, .local_rank = 1, .world_size = 8});
  CHECK(identity_from(EnvMap{{"SLURM_PROCID", "3"}, {"SLURM_LOCALID", "1"}, {"OMPI_COMM_WORLD_RANK", "9"}})
            ->kind == IdentityKind::slurm);
  CHECK(identity_from(EnvMap{{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}})->rank == 2);
  CHECK(identity_from(EnvMap{{"PMI_RANK", "2"}})->kind == IdentityKind::pmi);
  SUBCASE("the RANK of a pod, without LOCAL_RANK, is weaker than torchrun's") {
    CHECK(identity_from(EnvMap{{"RANK", "1"}, {"WORLD_SIZE", "2"}})->kind == IdentityKind::plain);
    CHECK(IdentityKind::torchrun < IdentityKind::plain);
  }
  SUBCASE("invalid values give no identity") {
    CHECK_FALSE(identity_from(EnvMap{{"RANK", "x"}, {"LOCAL_RANK", "0"}, {"WORLD_SIZE", "1"}}));
    CHECK_FALSE(identity_from(EnvMap{{"RANK", "-1"}, {"WORLD_SIZE", "1"}}));
    CHECK_FALSE(identity_from(EnvMap{{"RANK", "1"}}));
    CHECK_FALSE(identity_from(EnvMap{}));
  }
}

TEST_CASE("a launcher is not a rank, no matter how it was started") {
  using Argv = std::vector<std::string>;
  CHECK(starts_ranks(Argv{"python3", "-m", "torch.distributed.run", "train.py"}));
  CHECK(starts_ranks(Argv{"/usr/bin/python3", "-u", "-X", "dev", "/opt/venv/bin/torchrun", "train.py"}));
  CHECK(starts_ranks(Argv{"torchrun", "train.py"}));
  CHECK(starts_ranks(Argv{"python", "/opt/venv/bin/accelerate", "launch", "train.py"}));
  CHECK_FALSE(starts_ranks(Argv{"python3", "-u", "train.py", "torchrun"}));
  CHECK_FALSE(starts_ranks(Argv{"python3", "-m", "train", "-m", "torch.distributed.run"}));
  CHECK_FALSE(starts_ranks(Argv{"python3", "-c", "torchrun"}));
  CHECK_FALSE(starts_ranks(Argv{"python3", "-m"}));
  CHECK_FALSE(starts_ranks(Argv{}));
}

TEST_CASE("multiprocessing's internal processes are not ranks") {
  using Argv = std::vector<std::string>;
  CHECK(multiprocessing_part(
            Argv{"python3", "-s", "-c", "from multiprocessing.resource_tracker import main;main(4)"}) ==
        MultiprocessingPart::resource_tracker);
  CHECK(multiprocessing_part(
            Argv{"python3", "-B", "-c",
                 "from joblib.externals.loky.backend.resource_tracker import main; main(3, False)"}) ==
        MultiprocessingPart::resource_tracker);
  CHECK(multiprocessing_part(
            Argv{"python3", "-c", "from multiprocessing.forkserver import main; main(6, 7, ['__main__'])"}) ==
        MultiprocessingPart::fork_server);
  CHECK(
      multiprocessing_part(Argv{"python3", "-c", "from multiprocessing.spawn import spawn_main; spawn_main()",
                                "--multiprocessing-fork"}) == MultiprocessingPart::none);
  CHECK(multiprocessing_part(Argv{}) == MultiprocessingPart::none);
}

TEST_CASE("a wait for a child process is recognised") {
  const std::string lib = "/usr/lib/python3.11/";
  const stackdump::CodeName select{"_PollLikeSelector.select", lib + "selectors.py"};
  CHECK(process_wait({select,
                      {"wait", lib + "multiprocessing/connection.py"},
                      {"ProcessContext.join", "/x/torch/multiprocessing/spawn.py"}}) ==
        ProcessWait::launcher);
  CHECK(process_wait({{"Popen.poll", lib + "multiprocessing/popen_fork.py"},
                      {"Popen.wait", lib + "multiprocessing/popen_fork.py"},
                      {"BaseProcess.join", lib + "multiprocessing/process.py"},
                      {"<module>", "train.py"}}) == ProcessWait::perhaps);
  // Names in Python up to 3.10.
  CHECK(process_wait({{"_try_wait", lib + "subprocess.py"}, {"_wait", lib + "subprocess.py"}}) ==
        ProcessWait::perhaps);
  CHECK(process_wait({select,
                      {"Connection.poll", lib + "multiprocessing/connection.py"},
                      {"_MultiProcessingDataLoaderIter._try_get_data",
                       "/x/torch/utils/data/dataloader.py"}}) == ProcessWait::none);
  // The outermost frames of every spawned process.
  CHECK(process_wait({{"BaseProcess.run", lib + "multiprocessing/process.py"},
                      {"BaseProcess._bootstrap", lib + "multiprocessing/process.py"},
                      {"spawn_main", lib + "multiprocessing/spawn.py"}}) == ProcessWait::none);
  CHECK(process_wait({}) == ProcessWait::none);
}
