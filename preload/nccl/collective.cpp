#include "preload/nccl/collective.h"

namespace xpurun::preload {

namespace {

// ncclDataType_t: int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16, fp8 e4m3, fp8
// e5m2.
uint64_t size_of(int type) {
  // A type of a later NCCL counts as one byte: the bytes are then too small, but nothing reads past the
  // table.
  constexpr uint8_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type >= 0 && static_cast<size_t>(type) < sizeof(kSizes) ? kSizes[type] : 1;
}

// The count of these calls is for one rank's part.
uint64_t bytes_of(const Collective& call, int nranks) {
  const uint64_t bytes = call.count * size_of(call.type);
  switch (call.api) {
    case wire::Api::ncclAllGather:
    case wire::Api::ncclReduceScatter:
    case wire::Api::ncclAlltoAll:
    case wire::Api::ncclGather:
    case wire::Api::ncclScatter:
      return bytes * static_cast<uint64_t>(nranks > 0 ? nranks : 1);
    default:
      return bytes;
  }
}

}  // namespace

CallInfo describe_collective(const Collective& call, uint32_t comm, int nranks) {
  CallInfo info{};
  info.key.api = static_cast<uint16_t>(call.api);
  info.key.op_class = static_cast<uint8_t>(wire::OpClass::collective);
  info.key.dtype[0] = static_cast<uint8_t>(call.type);
  info.key.compute = static_cast<uint8_t>(call.op);
  info.key.k = static_cast<int64_t>(call.count);
  info.key.comm = comm;
  info.key.peer = call.peer;
  info.work = bytes_of(call, nranks);
  info.stream = call.stream;
  return info;
}

}  // namespace xpurun::preload
