// What NCCL's RAS says of a job: the output of `ncclras`, as text or as JSON (NCCL 2.28.7 and later). RAS
// knows how many collectives of each kind the ranks of a communicator have launched, and which ranks did not
// answer. Pure; untrusted.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

struct RasRank {
  std::string host;  // empty: not said
  base::Pid pid = 0;
  int64_t gpu = -1;  // by NVML
  // Launched so far, by the name of the operation: "AllReduce".
  std::map<std::string, uint64_t> launched;
  bool missing = false;  // gave no answer
  bool dead = false;     // has given none for long
};

struct RasCommunicator {
  std::string id;                    // its hash, in hexadecimal
  int64_t size = 0;                  // 0: not said
  std::map<int64_t, RasRank> ranks;  // by rank in the communicator; of a text those that it names
};

struct RasStatus {
  std::deque<RasCommunicator> communicators;
  std::vector<std::string> notes;  // what other lines say, "Encountered 2 communication timeouts ..."
};

bool looks_like_ras(std::string_view head);
base::Result<RasStatus> parse_ras(std::string_view text);

}  // namespace xpurun::report
