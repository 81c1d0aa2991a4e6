// How waiting looks on a stack: the table of functions in which a thread waits for other ranks, for the GPU,
// for a lock or for a helper process. Supporting a new framework means adding a line.
#pragma once

#include "common/model/stack_snapshot.h"
#include "common/model/verdict.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

enum class WaitKind {
  collective,
  point_to_point,  // send and recv: ranks may rightly be in different ones
  store,           // key-value store, rendezvous, start of a process group
  gpu,             // the host waits for GPU work, which may wait for peers
  kernel,          // a kernel that is known to wait for no peer
  lock,            // lock, condition, thread or queue of the same process
  helper,          // dataloader worker or child process
  input,           // a person at the prompt of the program or of its debugger
};

// Waits of the first four kinds end when other ranks act; the other kinds concern the rank alone.
constexpr bool waits_for_peers(WaitKind kind) {
  return kind != WaitKind::lock && kind != WaitKind::helper && kind != WaitKind::kernel &&
         kind != WaitKind::input;
}

struct Wait {
  WaitKind kind = WaitKind::collective;
  std::string what;           // as the user knows it: "all_reduce", "barrier", "backward (all_reduce)"
  model::CodeLocation where;  // call site in the user's code; empty function if unknown
};

// Whether the thread with these frames (innermost first) waits. `idle`: it uses next to no CPU; some
// functions (a backward pass without readable native frames) count as a wait only then.
struct WaitQuery {
  bool idle = false;
  bool siblings = true;  // the process may be one of several of multiprocessing; find_wait() sees it itself
  // A launch of work counts, too. Unless the thread is known to have launched nothing for long, it may launch
  // one kernel after the other.
  bool launches = false;
};
std::optional<Wait> find_wait(const std::vector<model::Frame>& frames, WaitQuery query);

// The thread asks for the address or the name of a host, and the answer does not come. Only the name service
// ends that, no rank.
bool asks_name_server(const std::vector<model::Frame>& frames);

// Refines a wait for the GPU by the kernels that the debugger saw running: a kernel without communication
// concerns the rank alone.
void refine_by_kernels(Wait& wait, const std::vector<model::GpuKernel>& running);

// find_wait() from the innermost Python function alone, for a rank without stacks. No call site.
std::optional<Wait> find_wait_at(std::string_view function, std::string_view file, WaitQuery query);

}  // namespace xpurun::report
