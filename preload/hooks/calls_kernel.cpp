#include "preload/hooks/calls_kernel.h"

#include "preload/record/op_table.h"

namespace xpurun::preload {

constinit std::atomic<uint32_t> g_kernel_entries[kKernelKinds] = {};

uint32_t enter_kernel(wire::Api api, uint32_t kind) {
  wire::OpKey key{};
  key.api = static_cast<uint16_t>(api);
  key.op_class = static_cast<uint8_t>(wire::OpClass::kernel);
  key.k = kind;
  key.comm = wire::kNoComm;
  key.peer = -1;
  const uint32_t entry = find_op(*segment(), key);
  g_kernel_entries[kind].store(entry + 1, std::memory_order_relaxed);
  return entry;
}

}  // namespace xpurun::preload
