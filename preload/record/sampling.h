// Selects the calls to time and the collectives that get a completion event: one in `sample` calls, one in
// `mark` collectives. Any thread reads the periods; the poller sets them. Inline, because every hooked call
// needs the answer.
#pragma once

#include "common/wire/segment.h"
#include "preload/core/state.h"
#include "preload/record/budget.h"

#include <stdint.h>

namespace xpurun::preload {

// A step launches about ten times as many kernels as matmuls, and each kernel sample says less. A power of
// two.
inline constexpr uint64_t kKernelsRarer = 8;

void set_periods(const Periods& periods);

// False if calls of this class are only counted.
inline bool is_to_be_timed(wire::OpClass op_class) {
  const uint32_t untimed = g_state.untimed.load(std::memory_order_relaxed);
  return (untimed >> static_cast<uint32_t>(op_class) & 1) == 0;
}

// Whether the call with this number among calls of its kind is a sample. For Every::call, the poller sets the
// periods to 1. Periods are powers of two, so the test is a mask instead of a division.
inline bool is_turn_to_time(uint64_t number, wire::OpClass op_class) {
  if (op_class == wire::OpClass::collective &&
      g_state.every.load(std::memory_order_relaxed) != wire::Every::none) {
    return is_to_be_timed(op_class);
  }
  const bool rare = op_class == wire::OpClass::kernel;
  const uint64_t rarer =
      rare && g_state.every.load(std::memory_order_relaxed) != wire::Every::call ? kKernelsRarer : 1;
  const uint64_t period = g_state.sample.load(std::memory_order_relaxed) * rarer;
  return (number & (period - 1)) == 0 && is_to_be_timed(op_class);
}

// Work that the program begins to do late in a run is seen at once, however rare samples are by then: the
// second, third, fifth, ninth and so on call of a matmul is a sample.
inline bool is_among_first(uint64_t number, wire::OpClass op_class) {
  return op_class == wire::OpClass::matmul && number != 0 && (number & (number - 1)) == 0;
}

// Whether the collective with this number on its communicator gets a completion event.
inline bool is_turn_to_mark(uint64_t number) {
  return (number & (g_state.mark.load(std::memory_order_relaxed) - 1)) == 0;
}

}  // namespace xpurun::preload
