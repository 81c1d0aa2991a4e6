// Input: the text of /proc/PID/maps, which a foreign snapshot file may contain.
#include "stackdump/memory/proc_maps.h"

#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace xpurun::stackdump;
  const ProcMaps maps = ProcMaps::parse({reinterpret_cast<const char*>(data), size});
  for (const Mapping& m : maps.all()) {
    if (m.lo >= m.hi) {
      std::abort();
    }
    maps.find(m.lo);
  }
  // Writing and reading must give the same mappings.
  const std::string text = to_text(maps);
  if (to_text(ProcMaps::parse(text)) != text) {
    std::abort();
  }
  return 0;
}
