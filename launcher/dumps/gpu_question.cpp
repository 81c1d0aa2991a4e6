#include "launcher/dumps/gpu_question.h"

namespace xpurun::launcher {

namespace {

// Whether a kernel of the rank may be the cause that the recorded calls do not show.
bool kernels_may_explain(const report::CallFinding& fault, base::Rank rank) {
  using enum report::CallFault;
  // These faults are proved by the calls themselves: the ranks disagree about the call.
  switch (fault.fault) {
    case operation:
    case root:
    case type:
    case size:
    case swapped:
    case message:
    case order:
      return false;
    // The accused rank may wait for a kernel of its own. The other ranks wait for the accused.
    case not_entered:
    case not_sent:
    case not_received:
      return fault.accused.contains(rank);
    case not_launched:
    case queued:
    case not_finished:
    case all_entered:
      return true;
  }
  return true;
}

}  // namespace

model::GpuStacks gpu_question(model::GpuStacks wanted, const std::optional<report::CallFinding>& fault,
                              base::Rank rank) {
  if (wanted == model::GpuStacks::automatic && fault && rank != base::kNoRank &&
      !kernels_may_explain(*fault, rank)) {
    return model::GpuStacks::never;
  }
  return wanted;
}

}  // namespace xpurun::launcher
