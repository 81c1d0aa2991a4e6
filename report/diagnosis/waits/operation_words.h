// The operation named by a function or by a GPU kernel.
#pragma once

#include <string_view>

namespace xpurun::report {

inline constexpr std::string_view kSendOrReceive = "send or recv";

// "all_reduce" for ncclAllReduce or ompi_coll_base_allreduce_intra_ring; empty if the name contains no
// operation.
std::string_view operation_word(std::string_view name);

// A GPU kernel of NCCL, or a framework's own kernel that communicates with peers. Names such as
// "reduce_kernel" prove nothing: most reductions stay on the device.
bool communicates(std::string_view kernel);

}  // namespace xpurun::report
