// A restricted unpickler: Python's pickle protocols 2 to 5 for plain types only. An opcode that would import,
// call or build anything (GLOBAL, REDUCE, BUILD and their kind) is refused with its name and its offset, and
// so are the text opcodes of protocols 0 and 1. Nothing is executed; memory and depth are bounded by
// PlainLimits.
#pragma once

#include "report/flight_recorder/plain_tree.h"

namespace xpurun::report {

// Texts of the tree point into `bytes`, which must outlive it.
base::Result<PlainTree> read_pickle(std::string_view bytes, const PlainLimits& limits = {});

}  // namespace xpurun::report
