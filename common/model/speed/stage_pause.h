// Pauses of the steps besides training: checkpoints and evaluations. A part of model::SpeedReport; times are
// seconds.
#pragma once

#include "common/model/rank_set.h"

#include <cstdint>
#include <string>

namespace xpurun::model {

enum class Stage : uint8_t;  // common/model/timing/span.h

struct StagePause {
  Stage stage{};        // checkpoint or evaluation
  int64_t count = 0;    // steps of the job with such a pause
  int64_t every = 0;    // steps from one to the next, median; 0: there was one
  double median_s = 0;  // of the rank that needs longest
  double longest_s = 0;
  double call_s = 0;  // of that median in the call itself; 0: all, or not known
  double share = 0;   // of the time of all steps
  std::string name;   // "torch.save"; empty: inferred
  std::string place;  // "train.py:30 (save)"; empty: unknown
  RankSet ranks;      // that have this pause
  // The ranks that need longer than the others for it, and the medians of both.
  RankSet slow;
  double slow_s = 0;
  double others_s = 0;
  std::string sentence;
};

}  // namespace xpurun::model
