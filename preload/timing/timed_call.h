// One hooked call from begin to end: counted exactly, and timed if it is its turn.
#pragma once

#include "common/wire/segment.h"
#include "preload/timing/budget.h"
#include "preload/timing/pending.h"
#include "preload/timing/runtime.h"

#include <stdint.h>

namespace xpurun::preload {

// Zero it first.
struct CallInfo {
  wire::OpKey key;
  uint64_t work;  // FLOP or bytes
  void* stream;
  void* blas;  // cublasHandle_t whose stream it is, where that has not been asked yet
};

// What begin_call() has done, for end_call().
struct Ticket {
  uint32_t op = kNoOp;
  uint32_t event = 0xffffffff;  // kNoEvent: counted only
  int32_t device = -1;
  void* stream = nullptr;  // if there is an event
  uint64_t call_ns = 0;
  uint64_t begin_cost_ns = 0;
  uint64_t record_ns = 0;
};

uint64_t now_ns();

enum class Turn { count, time };
enum class Outcome { accepted, failed };

inline Outcome outcome_of(int result) {
  return result == 0 ? Outcome::accepted : Outcome::failed;
}

// Before the call. Records the start event if the call is to be timed.
Ticket begin_call(const CallInfo& info);
// After it; `work`: FLOP or bytes. A call that failed is not counted.
void end_call(const Ticket& ticket, uint64_t work, Outcome outcome);

// The same for those who find the entry themselves.
struct Counted {
  uint32_t op;
  void* stream;
  void* blas;  // as in CallInfo
};
// What our cost on calls that are not timed is measured from: now on one call of so many, else 0.
uint64_t cost_begins();
Ticket begin_counted(const Counted& call, Turn turn, uint64_t cost_began_ns);

// Calls whose own time on the host is what counts: allocation, blocking copies.
void count_host_call(const CallInfo& info, uint64_t begin_ns, uint64_t end_ns);

// True if the stream is being captured into a graph: then nothing may be recorded, and nothing has run.
// Asks CUDA only while some capture is known to go on.
bool goes_into_a_graph(void* stream);
bool a_capture_goes_on();
void capture_began();
void capture_ended();

// The count of unfinished timed calls of a stream.
void stream_gains(void* stream);
void stream_loses(void* stream);

// One of so many calls is timed, one of so many collectives marked; powers of two. Set by the poller.
void set_periods(const Periods& periods);

// False if the class is only to be counted.
bool is_to_be_timed(wire::OpClass op_class);
// True if it is the turn of the call with that number among its like.
bool is_turn_to_time(uint64_t number, wire::OpClass op_class);
bool is_turn_to_mark(uint64_t number);

// An event of the calling thread's device for work on `stream`, or kNoEvent: no pool yet, none free, or a
// capture, even one begun behind our back.
uint32_t take_event(void* stream, int* device);

// Adds to what timing events, or marks, have cost: host time, and what they are taken to cost the GPU.
void sampled(uint64_t host_ns);
void marked(uint64_t host_ns);
// Likewise for a collective that NCCL times.
void profiled(uint64_t host_ns);
Spent spent();

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
