// CaptureReport: where ranks spent their time while a capture sampled their Python stacks, and which ranks
// differ from the others. Part of SpeedReport. Shares are parts of a rank's samples, 0 to 1.
#pragma once

#include "common/model/rank_set.h"
#include "common/model/speed/gpu_capture.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

struct CapturedFunction {
  std::string function;
  std::string file;
  int line = 0;          // most often seen in the ranks of `ranks`, or in all; 0: unknown
  bool by_line = false;  // the row is of this line alone: the ranks differ in lines of the function only
  bool worker = false;   // in processes that the ranks started, as data loaders do
  bool waits = false;    // most of the own time is in collectives or the backward pass, or the function is a
                         // part of these
  // Mean over the ranks, without those of `ranks` if there are any.
  double total = 0;   // the function or what it calls
  double own = 0;     // the function or library code that it calls; 0 for library code
  double spread = 0;  // standard deviation of `total` over all ranks
  RankSet ranks;      // that spend a larger share in it than the others
  double ranks_total = 0;
  double ranks_own = 0;
  // Share of the time in which a rank was in the function itself, as in `own`, while no work was running on
  // its GPU; negative: the GPU's activity was not recorded. The mean over the ranks, without those of `ranks`
  // if there are any; of `ranks`; the standard deviation over all.
  double path = -1;
  double ranks_path = -1;
  double path_spread = -1;
  // "train.main > train.Trainer.step > model.Net.forward": the stack on which the function was seen most
  // often in `ranks`, or in all, from the outermost function of the program on. Empty: the function only
  // calls the program.
  std::string stack;
};

// A thread besides the main one that held Python's GIL, for which the main thread may wait.
struct GilHolder {
  base::Rank rank = base::kNoRank;
  std::string thread;
  std::string function;  // in which it did so most often
  std::string file;
  int line = 0;
  double share = 0;  // of the time of the rank
};

struct CaptureReport {
  std::string dir;     // in the run directory: "captures/1"
  std::string reason;  // "slow", "request"
  int64_t wall_ns = 0;
  double seconds = 0;
  uint64_t samples = 0;
  RankSet ranks;
  std::string sentence;  // what differs between the ranks
  // Those with ranks that stand out first, by their excess; but last those that wait, and workers that are
  // alike.
  std::vector<CapturedFunction> functions;
  std::vector<GilHolder> gil_holders;  // the largest share first
  GpuCapture gpu;                      // empty without a GPU
  std::vector<std::string> notes;
};

// Sampled stacks as xpurun record writes them, and what a capture makes of them.
inline constexpr std::string_view kProfileSchema = "xpurun.profile/1";
inline constexpr std::string_view kCaptureSchema = "xpurun.capture/1";
// For programs, apart from a SpeedReport.
nlohmann::ordered_json to_json(const CaptureReport& capture);

}  // namespace xpurun::model
