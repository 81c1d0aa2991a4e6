// Input: "l" and a look at the memory as the bootstrap sends it, or "s" and a memory snapshot of PyTorch.
// What can be read becomes tables, a flame graph, and a file that can be read again.
#include "report/memory/memory_report.h"
#include "report/memory/torch_snapshot.h"

#include <cstdint>
#include <cstdlib>
#include <string>

using namespace xpurun;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  auto look = data[0] == 's' ? report::read_torch_snapshot(rest) : model::memory_look_from_json(rest);
  if (!look) {
    return 0;
  }
  const auto again = model::memory_look_from_json(model::memory_look_json(*look));
  if (!again || again->holders.size() != look->holders.size()) {
    std::abort();
  }
  const report::MemoryReport memory = report::memory_report({*look, *again});
  (void)report::memory_tables(memory, 10);
  (void)report::look_lines(memory);
  (void)report::memory_json(memory);
  (void)report::profile_svg(report::memory_profile(memory));
  return 0;
}
