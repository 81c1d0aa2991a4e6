// A restricted unpickler: Python's pickle protocols 2 to 5, plain types only. It refuses every opcode that
// would import, call or build anything (GLOBAL, REDUCE, BUILD and the like), with its name and offset, and
// also the text opcodes of protocols 0 and 1. Nothing is executed. PlainLimits bounds memory and depth.
#pragma once

#include "report/flight_recorder/plain_tree.h"

namespace xpurun::report {

// Texts of the tree point into `bytes`, which must outlive it.
base::Result<PlainTree> read_pickle(std::string_view bytes, const PlainLimits& limits = {});

}  // namespace xpurun::report
