// What waiting looks like on a stack: the table of functions in which a thread waits for other ranks, for the
// GPU, for a lock or for a helper process. One table so that a new framework is one line.
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
  point_to_point,  // send and recv: ranks may rightly stand in different ones
  store,           // key-value store, rendezvous, start of a process group
  gpu,             // the host waits for device work, which may wait for peers
  kernel,          // for a kernel of which is known that it waits for no peer
  lock,            // lock, condition, thread or queue of the same process
  helper,          // dataloader worker or child process
};

// Waits of the first four kinds end when other ranks act; the others are the rank's own affair.
constexpr bool waits_for_peers(WaitKind kind) {
  return kind != WaitKind::lock && kind != WaitKind::helper && kind != WaitKind::kernel;
}

struct Wait {
  WaitKind kind = WaitKind::collective;
  std::string what;           // as the user knows it: "all_reduce", "barrier", "backward (all_reduce)"
  model::CodeLocation where;  // call site in the user's code; empty function if unknown
};

// Whether the thread of these frames (innermost first) waits. `idle`: it uses next to no CPU; some places (a
// backward pass without readable native frames) are a wait only then.
struct WaitQuery {
  bool idle = false;
};
std::optional<Wait> find_wait(const std::vector<model::Frame>& frames, WaitQuery query);

// A wait for the GPU of which the debugger has seen what runs there: a kernel that talks to no peer is the
// rank's own affair.
void refine_by_kernels(Wait& wait, const std::vector<model::GpuKernel>& running);

// The same from the innermost Python function alone, for a rank without stacks. No call site.
std::optional<Wait> find_wait_at(std::string_view function, std::string_view file, WaitQuery query);

}  // namespace xpurun::report
