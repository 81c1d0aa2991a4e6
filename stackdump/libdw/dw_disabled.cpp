// Replaces dw_engine.cpp in builds without elfutils.
#include "stackdump/libdw/dw_engine.h"

namespace xpurun::stackdump {

base::Result<std::unique_ptr<Unwinder>> make_libdw_unwinder(ModuleList&, SnapshotMemory&) {
  return base::fail("this xpurun was built without libdw");
}

SourceLookup look_up_sources(const std::vector<Addr>&, ModuleList&, SymbolCache&, int64_t) {
  return {};
}

}  // namespace xpurun::stackdump
