// CallFinding: a cause of a hang that lies in what the ranks have called.
#pragma once

#include "common/model/rank_set.h"
#include "common/model/verdict.h"

namespace xpurun::report {

// In the order of decision: the first that applies is the cause.
enum class CallFault {
  operation,     // the same call number, another operation
  root,          // another root
  type,          // another data type
  size,          // another number of elements
  swapped,       // two calls of one communicator in opposite order
  message,       // a send and its receive differ in size or type
  not_entered,   // others have entered the call, and nothing recorded keeps the accused from it
  not_sent,      // a receive without its send
  not_received,  // a send without its receive
  order,         // communicators used in opposite order: a circle of waits
  not_launched,  // entered, and not handed to the GPU
  queued,        // handed to the GPU, not started: behind other work
  not_finished,  // finished by others
  all_entered,   // all have entered the same call and none has finished it
};

// Ranks have called, but not the same.
constexpr bool is_mismatch(CallFault fault) {
  return fault <= CallFault::message;
}

struct CallFinding {
  CallFault fault = CallFault::all_entered;
  model::VerdictCollective collective;  // with what each rank called, the accused first
  model::RankSet accused;               // empty: nobody can be told to be the cause
  model::RankSet waiting;               // who waits in the call, or in the circle, and is not accused
  bool tie = false;                     // no side is larger than all others
  bool complete = true;                 // the calls of all ranks of the communicator are known
};

}  // namespace xpurun::report
