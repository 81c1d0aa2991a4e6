// Names of GPU kernels for people. Pure.
#pragma once

#include <string>
#include <string_view>

namespace xpurun::model {

// Demangled, without return type and parameters: "at::native::vectorized_elementwise_kernel<4, ...>". Other
// names stay. Printable, at most 512 bytes.
std::string kernel_name(std::string_view symbol);
// Whether NCCL's library has the kernel.
bool is_nccl_kernel(std::string_view symbol);

}  // namespace xpurun::model
