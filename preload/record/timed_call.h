// One hooked call from start to end: counted exactly, and timed if it is a sample. Calling thread.
#pragma once

#include "common/wire/segment.h"
#include "preload/core/state.h"
#include "preload/record/capture.h"
#include "preload/record/counts.h"
#include "preload/record/event_guard.h"

#include <stdint.h>

namespace xpurun::preload {

// Must be zeroed before it is filled, because the key is compared bytewise.
struct CallInfo {
  wire::OpKey key;
  uint64_t work;  // FLOP or bytes
  void* stream;
  void* blas;  // cublasHandle_t whose stream the call uses; nullptr: use `stream`
};

// Passed from begin_call() to end_call().
struct Ticket {
  uint32_t op = kNoOp;
  HeldEvent event;         // none: the call is only counted
  void* stream = nullptr;  // valid if there is an event
  uint64_t call_ns = 0;
  uint64_t begin_cost_ns = 0;
  uint64_t record_ns = 0;
  bool first_of_step = false;
};

enum class Turn { count, time, first_of_step };
enum class Outcome { accepted, failed };

inline Outcome outcome_of(int result) {
  return result == 0 ? Outcome::accepted : Outcome::failed;
}

// A call with a known entry in the table of operations.
struct Counted {
  uint32_t op;
  void* stream;
  void* blas;  // as in CallInfo
  uint64_t work;
};
Counted find_entry(const CallInfo& info);
// Whether this call is a sample.
Turn turn_of(const CallInfo& info, uint32_t op);

// Before the call. Records the start event if the call is a sample.
Ticket begin_call(const Counted& call, Turn turn, uint64_t cost_began_ns);
// After the call; `work` is FLOP or bytes. A failed call is not counted.
void end_call(const Ticket& ticket, uint64_t work, Outcome outcome);

// For calls whose host time matters: allocations and blocking copies.
void count_host_call(const CallInfo& info, uint64_t begin_ns, uint64_t end_ns);

template <typename Function, typename... A>
int call_inside(Function* real, A... args) {
  const Inside inside;
  return real(args...);
}

// `cost_began_ns`: from cost_begins(), or 0.
template <typename Function, typename... A>
int call_counted(Function* real, const Counted& call, Turn turn, uint64_t cost_began_ns, A... args) {
  if (turn == Turn::count && cost_began_ns == 0 && !a_capture_goes_on()) [[likely]] {
    const int result = call_inside(real, args...);
    if (outcome_of(result) == Outcome::accepted && is_timing_on()) {
      count_call(call.op, call.work);
    }
    return result;
  }
  const Ticket ticket = begin_call(call, turn, cost_began_ns);
  const int result = call_inside(real, args...);
  end_call(ticket, call.work, outcome_of(result));
  return result;
}

template <typename Function, typename... A>
int call_timed(Function* real, uint64_t cost_began_ns, const CallInfo& info, A... args) {
  const Counted call = find_entry(info);
  return call_counted(real, call, turn_of(info, call.op), cost_began_ns, args...);
}

}  // namespace xpurun::preload
