// Injection: a fault that `xpurun selftest` puts into a small job, and the verdict that xpurun has to give.
// The faults themselves are the functions of the same names in job/*.py. Immutable data; any thread.
#pragma once

#include "common/base/ids.h"
#include "common/model/rank_set.h"

#include <optional>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

// The ranks that the verdict has to blame.
enum class Blame {
  nobody,
  culprit,
  minority,  // the culprit; of two ranks nobody, or the culprit where the routine tells
  at_most,   // nobody or the culprit
};

struct Expectation {
  // The id of the verdict: any of these; the kind is the part before the dot. For a slow job: ids of
  // slow_verdict().
  std::vector<std::string_view> ids;
  Blame blame = Blame::culprit;
  std::vector<std::string_view>
      places;  // any of these marks (places.h); empty: the verdict need not name a place
  std::vector<std::string_view> words;          // the sentence contains all of them
  std::vector<std::string_view> evidence = {};  // the sentence or the evidence contains all of them
  int signal = 0;                               // crash: the signal
};

enum class Device { cpu, gpu };

struct Injection {
  std::string_view name;
  std::string_view summary;  // what happens in the job
  int ranks = 3;             // on GPUs fewer, one per GPU, unless there are fewer than least_ranks
  int least_ranks = 2;
  base::Rank culprit = 1;
  bool recovers = false;  // the job recovers and must not be ended
  bool slow = false;      // a slow job (slow_trial.h): tried with --slow, or by its name
  bool needs_gpu = false;
  bool needs_mpi = false;  // mpirun starts the ranks of mpi_faults.py
  Expectation expected;
  std::optional<Expectation> expected_on_gpu = {};  // if ranks of NCCL end otherwise than those of gloo

  const Expectation& expected_on(Device device) const {
    return device == Device::gpu && expected_on_gpu ? *expected_on_gpu : expected;
  }
  // With too few GPUs, ranks share a GPU.
  int ranks_on(Device device, int gpus) const {
    return device == Device::gpu && gpus >= least_ranks && gpus < ranks ? gpus : ranks;
  }
};

model::RankSet blamed(const Injection& injection, const Expectation& expected, int ranks);

// All injections, in the order of the printed table; slow jobs last.
const std::vector<Injection>& injections();
std::vector<Injection> slow_jobs();
const Injection* find_injection(std::string_view name);

}  // namespace xpurun::launcher
