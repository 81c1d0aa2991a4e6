#include "launcher/nodes/job_identity.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

const Environment kTorchrun = {{"RANK", "5"},
                               {"LOCAL_RANK", "1"},
                               {"WORLD_SIZE", "8"},
                               {"LOCAL_WORLD_SIZE", "4"},
                               {"GROUP_RANK", "1"},
                               {"GROUP_WORLD_SIZE", "2"},
                               {"MASTER_ADDR", "h0"},
                               {"MASTER_PORT", "29500"},
                               {"TORCHELASTIC_RUN_ID", "none"}};

Environment with(Environment env, const Environment& more) {
  for (const auto& [name, value] : more) {
    env[name] = value;
  }
  return env;
}

struct Row {
  const char* what;
  IdentitySources sources;
  int nodes;
  int node_rank;
  const char* run;
};

}  // namespace

TEST_CASE("a node knows its place in the job") {
  const Environment plain = {{"RANK", "5"},         {"LOCAL_RANK", "1"},
                             {"WORLD_SIZE", "8"},   {"LOCAL_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "h0"}, {"MASTER_PORT", "1"}};
  const Environment step = {
      {"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_ID", "0"}, {"SLURM_JOB_ID", "77"}};
  const Environment single = with(kTorchrun, {{"WORLD_SIZE", "4"}, {"RANK", "1"}, {"GROUP_RANK", "0"}});
  const Row rows[] = {
      {"torchrun", {.rank = kTorchrun}, 2, 1, "h0-29500"},
      {"torchrun, its run identifier",
       {.rank = with(kTorchrun, {{"TORCHELASTIC_RUN_ID", "job7"}})},
       2,
       1,
       "job7"},
      {"the name goes first",
       {.rank = with(kTorchrun, {{"TORCHELASTIC_RUN_ID", "job7"}}), .name = "mine"},
       2,
       1,
       "mine"},
      {"plain variables", {.rank = plain}, 4, 2, "h0-1"},
      {"one xpurun a task of Slurm", {.own = step, .rank = with(step, {})}, 4, 3, "slurm-77-0"},
      {"torchrun below a task of Slurm", {.own = step, .rank = with(kTorchrun, step)}, 4, 3, "slurm-77-0"},
      {"a batch script has no step",
       {.own = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "77"}}, .rank = kTorchrun},
       2,
       1,
       "slurm-77-"},
      {"one xpurun a rank of Open MPI",
       {.own = {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"PMIX_NAMESPACE", "ns1"}},
        .rank = {{"OMPI_COMM_WORLD_RANK", "1"},
                 {"OMPI_COMM_WORLD_SIZE", "2"},
                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}}},
       2,
       1,
       "ns1"},
      {"an indexed Job of Kubernetes",
       {.own = {{"JOB_COMPLETION_INDEX", "1"}, {"JOB_UID", "u-1"}}, .rank = kTorchrun},
       2,
       1,
       "u-1"},
      {"variables of a PyTorchJob",
       {.own = {{"PET_NNODES", "2"}, {"PET_NODE_RANK", "1"}}, .rank = kTorchrun},
       2,
       1,
       "h0-29500"},
      {"several jobs of one node each", {.own = step, .rank = single}, 0, -1, "slurm-77-0"},
      {"one node", {.rank = single}, 0, -1, "h0-29500"},
      {"no rank yet", {.own = step}, 0, -1, "slurm-77-0"},
      {"given, no rank yet", {.own = step, .nodes = 4}, 4, 3, "slurm-77-0"},
      {"given", {.rank = single, .nodes = 3, .node_rank = 2, .name = "x"}, 3, 2, "x"},
      {"nonsense", {.rank = with(kTorchrun, {{"RANK", "x"}})}, 0, -1, "h0-29500"},
      {"absurd", {.rank = with(kTorchrun, {{"WORLD_SIZE", "99999999999"}})}, 0, -1, "h0-29500"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const JobIdentity found = job_identity(row.sources);
    CHECK(found.nodes == row.nodes);
    CHECK(found.node_rank == row.node_rank);
    CHECK(found.run == row.run);
    CHECK(found.several_nodes() == (row.nodes > 1));
  }
}

TEST_CASE("the ranks of a node follow from one of them") {
  const JobIdentity found = job_identity({.rank = kTorchrun});
  CHECK(found.local_ranks == std::vector<base::Rank>{4, 5, 6, 7});
  CHECK(found.world_size == 8);
  CHECK(found.mark.address == "h0");
  CHECK(found.mark.port == "29500");
  CHECK(found.mark.run_id.empty());
}

TEST_CASE("marks tell jobs of one name apart") {
  const JobMark here = {.scheduler = "slurm-1-0", .address = "h0", .port = "29500", .world_size = 8};
  const auto may_be = [&here](JobMark other) {
    CHECK(may_be_one_job(other, here) == may_be_one_job(here, other));
    return may_be_one_job(here, other);
  };
  CHECK(may_be(here));
  CHECK(may_be({}));
  CHECK(may_be({.address = "127.0.0.1", .port = "29500"}));
  CHECK(may_be({.scheduler = "slurm-2-0", .address = "h0", .port = "29500"}));
  CHECK_FALSE(may_be({.scheduler = "slurm-2-0"}));
  CHECK_FALSE(may_be({.scheduler = "slurm-1-0", .port = "29501"}));
  CHECK_FALSE(may_be({.address = "h1", .port = "29500"}));
  CHECK_FALSE(may_be({.address = "h0", .port = "29500", .world_size = 4}));
  // torchrun forms a job again with another port and other ranks.
  const JobMark again = {.run_id = "j", .address = "h1", .port = "30000", .world_size = 4};
  CHECK(may_be_one_job({.run_id = "j", .address = "h0", .port = "29500", .world_size = 8}, again));
  CHECK_FALSE(may_be_one_job({.run_id = "k", .address = "h1", .port = "30000", .world_size = 4}, again));
}

TEST_CASE("what keeps a node from joining is named with its option") {
  CHECK(job_identity({.rank = kTorchrun}).missing().empty());
  CHECK(JobIdentity{.nodes = 2, .node_rank = -1, .run = "x"}.missing().ends_with("--node-rank"));
  CHECK(JobIdentity{.nodes = 2, .node_rank = 2, .run = "x"}.missing().find("not below") != std::string::npos);
  CHECK(JobIdentity{.nodes = 2, .node_rank = 1}.missing().ends_with("--name"));
}

TEST_CASE("names are plain words, and different names stay different") {
  CHECK(plain_word("job-7_a") == "job-7_a");
  CHECK(plain_word("a.b").starts_with("a_b-"));
  CHECK(plain_word("a.b") != plain_word("a_b"));
  CHECK(plain_word("a.b") != plain_word("a>b"));
  CHECK(plain_word(std::string(300, 'x')).size() < 80);
  CHECK_FALSE(plain_word("").empty());
  CHECK(node_name(3, "h17") == "3-h17");
}
