// CallFinding: a cause of a hang that lies in the ranks' calls.
#pragma once

#include "common/model/rank_set.h"
#include "common/model/verdict.h"

#include <string>

namespace xpurun::report {

// In order of decision: the first fault that applies is the cause.
enum class CallFault {
  departed,      // made other calls than ever before, while the others kept their routine
  operation,     // same sequence number, another operation
  members,       // new_group with another list of ranks
  root,          // another root
  type,          // another data type
  size,          // another number of elements
  splits,        // all_to_all: a rank sends another number of elements than its peer expects
  swapped,       // two calls of one communicator in opposite order
  message,       // a send and its receive differ in size or type
  not_entered,   // others have entered the call; no record explains why the accused has not
  not_sent,      // a receive without its send
  not_received,  // a send without its receive
  locked,        // a lock of a window that another rank holds
  order,         // communicators used in opposite order: a circle of waits
  not_launched,  // entered, but not launched on the GPU
  queued,        // launched on the GPU, but not started: queued behind other work
  not_finished,  // finished by others only
  all_entered,   // all have entered the same call and none has finished it
};

// Ranks have made different calls.
constexpr bool is_mismatch(CallFault fault) {
  return fault <= CallFault::message;
}

struct CallFinding {
  CallFault fault = CallFault::all_entered;
  model::VerdictCollective collective;  // with each rank's calls, the accused first
  model::RankSet accused;               // empty: no rank can be named as the cause
  model::RankSet waiting;               // ranks that wait in the call or in the circle and are not accused
  bool tie = false;                     // no side is larger than all the others
  // not_entered: the thread that made the earlier calls of the accused on this communicator, if another
  // thread of theirs waits meanwhile.
  std::string thread;
  // The accused made another call than the others before this one: the records have lost that call.
  bool lost = false;
  bool behind = false;   // not_sent: the sends are launched, behind the receives of the same ranks
  bool complete = true;  // the calls of all ranks of the communicator are known
};

}  // namespace xpurun::report
