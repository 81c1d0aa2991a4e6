// Replay: the distinct matmuls and collectives of a run, executed again on the GPUs of this machine, beside
// what they took in the run. The output of `xpurun replay --format json`, schema "xpurun.replay/1". Times are
// seconds, rates are per second; a negative number is unknown.
#pragma once

#include "common/base/ids.h"
#include "common/model/rank_set.h"
#include "common/model/speed/throttle_reason.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

inline constexpr std::string_view kReplaySchema = "xpurun.replay/1";

// A shape on one rank of the run.
struct ShapeOnRank {
  base::Rank rank = base::kNoRank;
  int64_t count = 0;  // of timed calls
  double median_s = 0;
  double tflops = -1;
  double of_median = 1;          // speed over the median of the ranks' speeds
  double of_replay = -1;         // speed over that of the replay
  bool slow = false;             // of_median is below the factor
  bool only_overlapped = false;  // all its calls were beside a collective: not judged, and in no median
};

// The repetitions of one operation on this machine.
struct ReplayTimes {
  int64_t repeats = 0;  // 0: not replayed
  double median_s = -1;
  double p10_s = -1;
  double p90_s = -1;
  int sm_clock_mhz = -1;  // while the GPU worked
  std::string skipped;    // why the operation was not replayed
};

struct ReplayedMatmul {
  std::string shape;  // "4096x1024x512", "8 x 512x512x64": batch in front
  std::string types;
  std::string transposes;
  std::string function;  // of the run: "cublasGemmEx"
  std::string epilogue;  // "bias", "gelu, bias"; empty: none
  double flop = 0;       // of one call
  int64_t count = 0;     // of timed calls, all ranks
  int64_t overlapped =
      0;                // timed calls beside a collective of the same rank, which are left out of the medians
  double share = 0;     // of the time of all matmuls of the run
  double median_s = 0;  // in the run: median of the ranks' medians
  double tflops = -1;
  ReplayTimes replay;
  double replay_tflops = -1;
  double of_replay = -1;  // tflops / replay_tflops
  std::vector<ShapeOnRank> ranks;
};

struct ReplayedCollective {
  std::string operation;  // "AllReduce"
  std::string type;       // "bf16"
  uint64_t bytes = 0;     // of one call, as in the tables of operations
  int size = 0;           // ranks of the communicator in the run
  int64_t count = 0;      // of timed calls that all or several ranks made
  double share = 0;       // of the time of all collectives of the run
  double transfer_s = 0;  // in the run: median from the last arrival on
  double bus_gb_s = -1;   // 1e9 bytes
  int devices = 0;        // GPUs of the replay
  ReplayTimes replay;
  double replay_bus_gb_s = -1;
  double of_replay = -1;  // bus bandwidth over that of the replay
};

// All replayed shapes of a rank together, weighted with the time of its calls.
struct ReplayedRank {
  base::Rank rank = base::kNoRank;
  std::string host;
  std::string gpu;
  double of_median = 1;
  double of_replay = -1;
  int64_t slow_shapes = 0;
  bool slow = false;
};

struct ReplayDevice {
  int index = 0;
  std::string name;
  std::string uuid;
  std::string driver;                  // newest CUDA version of the driver
  std::vector<std::string> libraries;  // "cuBLAS 13.0.2: /path/libcublas.so.13"
  double memory_bytes = 0;
  int sm_clock_mhz = -1;  // median while the GPU worked
  int sm_clock_max_mhz = -1;
  int temperature_c = -1;  // highest
  double power_w = -1;     // highest
  std::vector<ThrottleReason> throttle_reasons;
};

struct Replay {
  std::string sentence;
  double factor = 0;            // ranks below factor x median are slow
  int64_t all_matmuls = 0;      // distinct ones of the run
  double covered = 0;           // share of the time of all matmuls that was replayed
  int64_t all_collectives = 0;  // 0 without --collectives
  ReplayDevice device;
  std::vector<ReplayedMatmul> matmuls;          // the most time first
  std::vector<ReplayedCollective> collectives;  // the most time first
  std::vector<ReplayedRank> ranks;
  RankSet slow;
  std::vector<std::string> notes;  // what the numbers rest on
};

nlohmann::ordered_json to_json(const Replay& replay);

}  // namespace xpurun::model
