// Allocations, copies, fills, graph launches and captures, described by their arguments. Calls that only
// queue work on a stream are timed on the stream; calls that block the host are timed on the host.
#pragma once

#include "preload/core/clock.h"
#include "preload/core/vendor.h"
#include "preload/nccl/completion_events.h"
#include "preload/record/capture.h"
#include "preload/record/own_cost.h"
#include "preload/record/timed_call.h"

namespace xpurun::preload {

struct MemoryOp {
  uint64_t bytes = 0;
  int copy = 0;                // cudaMemcpyKind
  const void* host = nullptr;  // the host side of a copy
  void* stream = nullptr;
  bool on_stream = false;  // returns before the work is done
};

CallInfo describe_memory(wire::Api api, const MemoryOp& op);

// Call after a successful allocation on the calling thread's device: the context exists, so events can be
// created. Creating them earlier would create a context, some hundred MB of GPU memory, on a device that the
// program may never use.
void device_is_used();

inline const void* host_side(int kind, const void* to, const void* from) {
  return kind == kHostToDevice ? from : (kind == kDeviceToHost ? to : nullptr);
}

// clang-format off
inline MemoryOp memory_of(CudaMalloc*, void**, size_t size) { return {size, 0, nullptr, nullptr, false}; }
inline MemoryOp memory_of(CudaHostAlloc*, void**, size_t size, unsigned) { return {size, 0, nullptr, nullptr, false}; }
inline MemoryOp memory_of(CudaMallocAsync*, void**, size_t size, void*) { return {size, 0, nullptr, nullptr, false}; }
inline MemoryOp memory_of(CudaMallocFromPool*, void**, size_t size, void*, void*) { return {size, 0, nullptr, nullptr, false}; }
inline MemoryOp memory_of(CudaFree*, void*) { return {}; }
inline MemoryOp memory_of(CudaFreeAsync*, void*, void*) { return {}; }
inline MemoryOp memory_of(CuMemCreate*, unsigned long long*, size_t size, const void*, unsigned long long) { return {size, 0, nullptr, nullptr, false}; }
inline MemoryOp memory_of(CuMemRelease*, unsigned long long) { return {}; }
inline MemoryOp memory_of(CuMemMap*, unsigned long long, size_t size, size_t, unsigned long long, unsigned long long) { return {size, 0, nullptr, nullptr, false}; }
inline MemoryOp memory_of(CuMemUnmap*, unsigned long long, size_t size) { return {size, 0, nullptr, nullptr, false}; }
inline MemoryOp memory_of(CudaMemcpy*, void* to, const void* from, size_t size, int kind) { return {size, kind, host_side(kind, to, from), nullptr, false}; }
inline MemoryOp memory_of(CudaMemcpyAsync*, void* to, const void* from, size_t size, int kind, void* stream) { return {size, kind, host_side(kind, to, from), stream, true}; }
inline MemoryOp memory_of(CudaMemcpy2D*, void* to, size_t, const void* from, size_t, size_t width, size_t height, int kind) { return {width * height, kind, host_side(kind, to, from), nullptr, false}; }
inline MemoryOp memory_of(CudaMemcpy2DAsync*, void* to, size_t, const void* from, size_t, size_t width, size_t height, int kind, void* stream) { return {width * height, kind, host_side(kind, to, from), stream, true}; }
inline MemoryOp memory_of(CudaMemcpyPeer*, void*, int, const void*, int, size_t size) { return {size, kDeviceToDevice, nullptr, nullptr, false}; }
inline MemoryOp memory_of(CudaMemcpyPeerAsync*, void*, int, const void*, int, size_t size, void* stream) { return {size, kDeviceToDevice, nullptr, stream, true}; }
inline MemoryOp memory_of(CudaMemset*, void*, int, size_t size) { return {size, 0, nullptr, nullptr, false}; }
inline MemoryOp memory_of(CudaMemsetAsync*, void*, int, size_t size, void* stream) { return {size, 0, nullptr, stream, true}; }
// clang-format on

struct MemoryCall {
  template <wire::Api kApi, typename... A>
  static int call(int (*real)(A...), A... args) {
    const MemoryOp op = memory_of(real, args...);
    const uint64_t cost_began_ns = op.on_stream ? cost_begins() : 0;
    const CallInfo info = describe_memory(kApi, op);
    if (op.on_stream) {
      return call_timed(real, cost_began_ns, info, args...);
    }
    const uint64_t begin = now_ns();
    const int result = call_inside(real, args...);
    if (result == 0 && is_timing_on()) {
      count_host_call(info, begin, now_ns());
      if (kApi == wire::Api::cudaMalloc) {
        device_is_used();
      }
    }
    return result;
  }
};

struct GraphCall {
  template <wire::Api kApi>
  static int call(CudaGraphLaunch* real, void* graph, void* stream) {
    const uint64_t cost_began_ns = cost_begins();
    CallInfo info = describe_memory(kApi, {0, 0, nullptr, stream, true});
    info.key.op_class = static_cast<uint8_t>(wire::OpClass::graph);
    info.key.k = static_cast<int64_t>(reinterpret_cast<uintptr_t>(graph));
    info.key.flags = collectives_in_graphs() ? wire::kOpMeets : 0;
    return call_timed(real, cost_began_ns, info, graph, stream);
  }
};

struct CaptureCall {
  template <wire::Api kApi, typename... A>
  static int call(int (*real)(A...), A... args) {
    constexpr bool kBegin = kApi == wire::Api::cudaStreamBeginCapture;
    if (kBegin) {
      capture_began();
    }
    const int result = real(args...);
    if (!kBegin || result != 0) {
      capture_ended();
    }
    return result;
  }
};

}  // namespace xpurun::preload
