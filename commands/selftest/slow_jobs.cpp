// The table of slow jobs: job/slow_faults.py.
#include "commands/selftest/injection.h"

namespace xpurun::launcher {

namespace {

Expectation slow_rank(std::string_view id) {
  return {.ids = {id}};
}

Expectation slow_job(std::vector<std::string_view> ids) {
  return {.ids = std::move(ids), .blame = Blame::nobody};
}

Expectation not_slow() {
  return {.ids = {"none.not_slow"}, .blame = Blame::nobody};
}

}  // namespace

std::vector<Injection> slow_jobs() {
  std::vector<Injection> out{
      {.name = "slow-loader",
       .summary = "the dataset of a rank needs longer for a sample",
       .expected = slow_rank("slow_rank.input")},
      {.name = "garbage-storm",
       .summary = "a rank has many objects and collects garbage in every step",
       .expected = slow_rank("slow_rank.gc")},
      {.name = "busy-core",
       .summary = "a rank shares its core with processes that compute",
       .expected = slow_rank("slow_rank.cpu_contention")},
      {.name = "extra-sync",
       .summary = "a rank waits for its GPU after each of many small operations",
       .needs_gpu = true,
       .expected = slow_rank("slow_rank.host_issue")},
      {.name = "shared-gpu",
       .summary = "another process computes on the GPU of a rank",
       .needs_gpu = true,
       .expected = {.ids = {"slow_rank.gpu_shared", "slow_rank.gpu_compute"}}},
      {.name = "slow-link",
       .summary = "collectives use one block of the GPU",
       .needs_gpu = true,
       .expected = slow_job({"slower.network"})},
      {.name = "slower-model",
       .summary = "all ranks compute more",
       .expected = slow_job({"slower.unknown", "slower.gpu_compute", "slower.host_issue"})},
      {.name = "slow-checkpoint",
       .summary = "a checkpoint takes as long as many steps",
       .expected = not_slow()},
      {.name = "alternating-shapes",
       .summary = "batches of three lengths take turns",
       .expected = not_slow()},
      {.name = "nothing-slow", .summary = "no fault", .expected = not_slow()},
  };
  for (Injection& one : out) {
    one.ranks = 2;
    one.recovers = true;
    one.slow = true;
  }
  return out;
}

}  // namespace xpurun::launcher
