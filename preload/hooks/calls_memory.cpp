#include "preload/hooks/calls_memory.h"

#include "preload/cuda/cuda_api.h"
#include "preload/cuda/event_pool.h"

namespace xpurun::preload {

namespace {

// cudaPointerGetAttributes takes about as long as a copy of this many bytes. Smaller copies do without.
constexpr uint64_t kAskFrom = 64 * 1024;

wire::HostMemory kind_of(const void* pointer) {
  // The head of cudaPointerAttributes: cudaMemoryType (0 unregistered, 1 host), and room for the rest.
  struct Attributes {
    int type;
    int device;
    void* pointers[16];
  } attributes{};
  if (!load_cuda_api() || error_is_pending()) {
    return wire::HostMemory::unknown;
  }
  if (cuda_api().pointer_attributes(&attributes, pointer) != 0) {
    forget_cuda_error();
    return wire::HostMemory::unknown;
  }
  return attributes.type == 1 ? wire::HostMemory::pinned : wire::HostMemory::pageable;
}

int64_t log2_of(uint64_t bytes) {
  return bytes == 0 ? 0 : 63 - __builtin_clzll(bytes);
}

}  // namespace

CallInfo describe_memory(wire::Api api, const MemoryOp& op) {
  CallInfo info{};
  info.key.api = static_cast<uint16_t>(api);
  info.key.op_class = static_cast<uint8_t>(wire::OpClass::memory);
  info.key.k = log2_of(op.bytes);
  info.key.comm = wire::kNoComm;
  info.key.peer = -1;
  info.key.copy = static_cast<uint8_t>(op.copy);
  if (op.host != nullptr && op.bytes >= kAskFrom && !goes_into_a_graph(op.stream)) {
    const Inside inside;
    info.key.pinned = static_cast<uint8_t>(kind_of(op.host));
  }
  info.work = op.bytes;
  info.stream = op.stream;
  return info;
}

void device_is_used() {
  int device = -1;
  if (!load_cuda_api() || error_is_pending() || cuda_api().get_device(&device) != 0) {
    return;
  }
  if (EventPool* pool = event_pool(device)) {
    pool->want();
  }
}

}  // namespace xpurun::preload
