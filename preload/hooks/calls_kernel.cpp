#include "preload/hooks/calls_kernel.h"

#include "preload/record/op_table.h"
#include "preload/record/own_cost.h"
#include "preload/record/sampling.h"

namespace xpurun::preload {

namespace {

// Launches of one function with about the same number of blocks take about the same time. At most this many
// kinds are told apart, so that kernels never fill the table of operations; kinds that hash alike share an
// entry.
constexpr uint32_t kKinds = 256;

// By kind: index of its operation + 1; 0: not entered yet.
constinit std::atomic<uint32_t> g_entries[kKinds] = {};

uint64_t mixed(uint64_t n) {
  n = (n ^ n >> 32) * 0x9e3779b97f4a7c15;
  return n ^ n >> 29;
}

uint32_t kind_of(wire::Api api, const KernelLaunch& launch) {
  const auto size = static_cast<uint64_t>(launch.blocks == 0 ? 0 : 64 - __builtin_clzll(launch.blocks));
  const uint64_t which = reinterpret_cast<uintptr_t>(launch.function) >> 4;
  return static_cast<uint32_t>(mixed(which ^ size << 48 ^ static_cast<uint64_t>(api) << 56) % kKinds);
}

uint32_t entry_of(wire::Api api, uint32_t kind) {
  const uint32_t known = g_entries[kind].load(std::memory_order_relaxed);
  if (known != 0) {
    return known - 1;
  }
  wire::OpKey key{};
  key.api = static_cast<uint16_t>(api);
  key.op_class = static_cast<uint8_t>(wire::OpClass::kernel);
  key.k = kind;
  key.comm = wire::kNoComm;
  key.peer = -1;
  const uint32_t entry = find_op(*segment(), key);
  g_entries[kind].store(entry + 1, std::memory_order_relaxed);
  return entry;
}

// Drawn at random by the number of the launch: programs repeat the same launches, so that every n-th launch
// would always be the same kernel. The first launch of a kind is never a sample: CUDA loads the kernel's code
// then (lazy loading), which can take milliseconds.
Turn turn_of(uint64_t number) {
  const bool drawn = is_turn_to_time(mixed(mixed(number)), wire::OpClass::kernel);
  return number != 0 && drawn ? Turn::time : Turn::count;
}

}  // namespace

Ticket begin_kernel(wire::Api api, const KernelLaunch& launch) {
  const uint64_t begin = cost_begins();
  const uint32_t entry = entry_of(api, kind_of(api, launch));
  const uint64_t number = segment()->ops[entry].calls.load(std::memory_order_relaxed);
  return begin_counted({entry, launch.stream, nullptr}, turn_of(number), begin);
}

void end_kernel(const Ticket& ticket, Outcome outcome) {
  if (ticket.op == kNoOp || !is_timing_on()) {
    return;
  }
  if (outcome == Outcome::accepted) {
    add(segment()->header.health.kernel_launches, 1);
  }
  end_call(ticket, 0, outcome);
}

}  // namespace xpurun::preload
