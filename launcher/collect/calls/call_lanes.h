// The two records of a rank, which the supervisor reads together, as the diagnosis wants them. Pure.
#pragma once

#include "common/model/collectives.h"

namespace xpurun::launcher {

// Makes the lanes of the rank from all recorded calls, and leaves only the latest collectives and the
// unfinished messages in its communicators. NCCL's calls get the operation, the line and the thread of the
// call of torch.distributed that made them: torch's barrier is an all_reduce of one element for NCCL.
// Calls that C++ code makes, such as DDP's, stay as they are.
void arrange_calls(model::RankCollectives& rank);

}  // namespace xpurun::launcher
