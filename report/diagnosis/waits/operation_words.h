// Which operation the name of a function or of a GPU kernel speaks of.
#pragma once

#include <string_view>

namespace xpurun::report {

inline constexpr std::string_view kSendOrReceive = "send or recv";

// "all_reduce" of ncclAllReduce or ompi_coll_base_allreduce_intra_ring; empty if the name speaks of none.
std::string_view operation_word(std::string_view name);

// A GPU kernel of NCCL, or one that a framework wrote itself to talk to peers. Names such as "reduce_kernel"
// are no such sign: most reductions stay on the device.
bool communicates(std::string_view kernel);

}  // namespace xpurun::report
