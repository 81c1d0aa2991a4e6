// The line that CUDA prints for a failed assertion of a kernel, one per GPU thread. The exception that
// follows in Python names neither kernel nor condition, and comes from any later call.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace xpurun::model {

struct DeviceAssert {
  std::string file;  // as the compiler knew it
  int line = 0;
  std::string function;
  std::string condition;
};

// The first of the text: "../aten/Indexing.cu:1292: indexSelect: block: [0,0,0], thread: [5,0,0] Assertion
// `index < size` failed."
std::optional<DeviceAssert> find_device_assert(std::string_view text);

}  // namespace xpurun::model
