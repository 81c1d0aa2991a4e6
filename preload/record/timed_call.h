// One hooked call from begin to end: counted exactly, and timed if it is a sample. The calling thread.
#pragma once

#include "common/wire/segment.h"
#include "preload/core/state.h"
#include "preload/record/event_guard.h"

#include <stdint.h>

namespace xpurun::preload {

// Must be zeroed before it is filled: the key is compared as bytes.
struct CallInfo {
  wire::OpKey key;
  uint64_t work;  // FLOP or bytes
  void* stream;
  void* blas;  // cublasHandle_t whose stream the call uses; nullptr: `stream` is the stream
};

// What begin_call() has done, for end_call().
struct Ticket {
  uint32_t op = kNoOp;
  HeldEvent event;         // none: the call is only counted
  void* stream = nullptr;  // valid if there is an event
  uint64_t call_ns = 0;
  uint64_t begin_cost_ns = 0;
  uint64_t record_ns = 0;
};

enum class Turn { count, time };
enum class Outcome { accepted, failed };

inline Outcome outcome_of(int result) {
  return result == 0 ? Outcome::accepted : Outcome::failed;
}

// Before the call. Records the start event if the call is a sample.
Ticket begin_call(const CallInfo& info);
// After the call; `work` is FLOP or bytes. A call that failed is not counted.
void end_call(const Ticket& ticket, uint64_t work, Outcome outcome);

// The same for callers that find the entry of the operation themselves.
struct Counted {
  uint32_t op;
  void* stream;
  void* blas;  // as in CallInfo
};
Ticket begin_counted(const Counted& call, Turn turn, uint64_t cost_began_ns);

// Calls whose time on the host is what counts: allocations and blocking copies.
void count_host_call(const CallInfo& info, uint64_t begin_ns, uint64_t end_ns);

template <typename Function, typename... A>
int call_timed(Function* real, const CallInfo& info, A... args) {
  const Ticket ticket = begin_call(info);
  int result = 0;
  {
    const Inside inside;
    result = real(args...);
  }
  end_call(ticket, info.work, outcome_of(result));
  return result;
}

}  // namespace xpurun::preload
