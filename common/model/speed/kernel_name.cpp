#include "common/model/speed/kernel_name.h"

#include "common/base/strings.h"

#include <cstdlib>
#include <cxxabi.h>
#include <memory>

namespace xpurun::model {

namespace {

constexpr size_t kLongest = 512;

struct Free {
  void operator()(char* text) const { std::free(text); }
};

// The start of the parameter list; the length of the name if it has none.
size_t parameters_of(std::string_view name) {
  if (!name.ends_with(')')) {
    return name.size();
  }
  int depth = 0;
  for (size_t at = name.size(); at-- > 0;) {
    depth += name[at] == ')' ? 1 : name[at] == '(' ? -1 : 0;
    if (depth == 0) {
      return at;
    }
  }
  return name.size();
}

}  // namespace

std::string kernel_name(std::string_view symbol) {
  std::string name(symbol);
  if (symbol.starts_with("_Z")) {
    int status = 0;
    const std::unique_ptr<char, Free> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status));
    if (status == 0 && text != nullptr) {
      name = text.get();
      name.resize(parameters_of(name));
      if (constexpr std::string_view kVoid = "void "; name.starts_with(kVoid)) {
        name.erase(0, kVoid.size());
      }
    }
  }
  return base::elide_middle(base::sanitize(name), kLongest);
}

bool is_nccl_kernel(std::string_view symbol) {
  // ncclDevKernel_AllReduce_Sum_f32_RING_LL, mangled with its parameters; before NCCL 2.19 ncclKernel_...
  const std::string_view start = symbol.substr(0, 24);
  return start.find("ncclDevKernel_") != start.npos || start.find("ncclKernel_") != start.npos ||
         start.find("ncclSymkDevKernel_") != start.npos || start.find("ncclSymDevKernel_") != start.npos;
}

}  // namespace xpurun::model
