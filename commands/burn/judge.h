// Which GPUs of a burn are faulty, or slower than the others of their model by more than GPUs differ. Pure.
#pragma once

#include "commands/burn/measures.h"

#include <string>
#include <vector>

namespace xpurun::launcher {

enum class BurnFaultKind { failed, wrong, slow, below_peak };

struct BurnFault {
  BurnFaultKind kind = BurnFaultKind::slow;
  int gpu = -1;  // index of the unit; negative: which one is not known
  BurnWork work = BurnWork::matmul;
  double slower = 0;     // 0.12: by 12 %
  std::string sentence;  // "GPU 3 (serial 165...) is 12 % slower in bf16 matmul: ..."
};

// Most important first.
std::vector<BurnFault> judge_burn(const Burn& burn);

// The median rate; negative: not measured.
double rate_of(const BurnedGpu& gpu, BurnWork work);
// Whether all rounds of the GPU have the result that most rounds of its model have; nothing without a result.
enum class BurnResults { none, equal, wrong, unclear };
BurnResults results_of(const Burn& burn, const BurnedGpu& gpu);

}  // namespace xpurun::launcher
