// The step clock's events: of each training step, the first collective is timed, so that the GPU's clock is
// known once a step; in jobs without collectives, the first kernel or matmul. Of six steps in 32, every
// collective is timed, which shows how long each rank waited: all ranks count the same steps, so these are
// the same steps on all ranks. Both are limited to a share of the time. The program's thread says when a step
// ends; any thread asks.
#pragma once

#include "preload/core/state.h"

#include <stdint.h>

namespace xpurun::preload {

// Bits of State::due.
inline constexpr uint8_t kCollectiveDue = 1u << 0;
inline constexpr uint8_t kWorkDue = 1u << 1;

// A step ended, as the program or Python's hooks say: the next collective is the first of its step.
void step_ended(uint64_t now_ns);

// Before each collective. In a program whose steps nobody marks (inference, JAX), the collective that is
// rarest in the sequence begins a step. All ranks call the same sequence, so they choose the same one.
// `kind`, not 0, is equal for collectives of equal operation, size and communicator.
void collective_comes(uint64_t kind, uint64_t now_ns);

bool take_due(uint8_t bit);
// Whether the calling thread's call is the first of its step. True once a step.
inline bool is_first_of_step(uint8_t bit) {
  return (g_state.due.load(std::memory_order_relaxed) & bit) != 0 && take_due(bit);
}

// For a collective that is timed because all of its step are.
void one_of_all_collectives();
inline bool are_all_collectives_timed() {
  return g_state.all_collectives.load(std::memory_order_relaxed);
}

}  // namespace xpurun::preload
