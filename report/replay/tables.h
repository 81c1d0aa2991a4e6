// A replay as tables for the terminal. Pure.
#pragma once

#include "common/model/speed/replay.h"
#include "report/operations/tables/text_tables.h"

#include <vector>

namespace xpurun::report {

// Matmuls, ranks, collectives; tables without rows are left out. `most` rows of ranks.
std::vector<TextTable> replay_tables(const model::Replay& replay, size_t most);

}  // namespace xpurun::report
