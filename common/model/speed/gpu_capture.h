// GpuCapture: every kernel, copy and call of the CUDA runtime that CUPTI recorded during a capture, summed up
// by name, with the cost of the recording. Part of CaptureReport; without `work` also the file
// captures/<n>/gpu.json, schema "xpurun.gpu-capture/1". Times are seconds, shares parts of 1; negative:
// unknown.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/model/names.h"
#include "common/model/rank_set.h"
#include "common/model/speed/link_class.h"
#include "common/model/speed/resource_use.h"
#include "common/model/speed/throttle_reason.h"

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

inline constexpr std::string_view kGpuCaptureSchema = "xpurun.gpu-capture/1";

// The result of the recording in a rank.
enum class ActivityStatus {
  complete,
  lossy,         // records were dropped
  client_came,   // ended early: another CUPTI client came
  other_client,  // not begun: another CUPTI client has subscribed
  no_library,
  unknown_version,
  refused,  // by CUPTI
  failed,   // by xpurun: no memory, no object, no file
  no_answer,
};
template <>
inline constexpr std::array<std::string_view, 9> kNames<ActivityStatus> = {
    "complete",        "lossy",   "client_came", "other_client", "no_library",
    "unknown_version", "refused", "failed",      "no_answer"};

struct RankActivity {
  base::Rank rank = base::kNoRank;
  ActivityStatus status = ActivityStatus::no_answer;
  std::string reason;         // of `failed` and `refused`
  uint32_t cupti = 0;         // cuptiGetVersion
  int64_t begin_mono_ns = 0;  // CLOCK_MONOTONIC of the host
  double seconds = 0;
  uint64_t records = 0;
  uint64_t lost = 0;      // records without room
  double overhead_s = 0;  // CUPTI's own time during the capture, as CUPTI reports it
  double handling_s = 0;  // CPU time to take the records
  double setup_s = 0;     // before the capture
  double teardown_s = 0;  // after it
  std::string file;       // in the directory of the capture; empty: none
  std::string gpu_uuid;
  double busy_share = -1;  // of the time in which a kernel or a memory operation was running
  ResourceSampling sampling;
  bool has_records() const { return !file.empty(); }
};

enum class WorkKind { kernel, collective, memory, call };
template <>
inline constexpr std::array<std::string_view, 4> kNames<WorkKind> = {"kernel", "collective", "memory",
                                                                     "call"};

struct CapturedWork {
  std::string name;  // "vectorized_elementwise_kernel<4, ...>", "Memcpy HtoD", "cudaLaunchKernel"
  WorkKind kind = WorkKind::kernel;
  LinkClass link = LinkClass::unknown;  // of a collective
  uint64_t count = 0;                   // of all ranks
  double total_s = 0;                   // mean of the ranks
  double share = 0;                     // of the captured time, mean of the ranks
  double path = 0;                      // the part of `share` in which nothing that goes before was running
  double mean_s = 0;                    // of one
  double median_s = 0;                  // of one, exact to 1 %
  double spread_s = 0;                  // standard deviation of one
  RankSet ranks;                        // that differ from the others: longer, or shorter in a collective
  double ranks_share = 0;
  // If there are such: another rank whose share is nearest to that of the others.
  base::Rank normal_rank = base::kNoRank;
  double normal_share = 0;
  // Readings of hardware counters while the work was running.
  std::string resource;                // the one that fits the work: "tensor"; empty: no samples
  double filled = 0;                   // part of the time of these samples in which the work was running
  std::vector<ResourceUse> resources;  // all
};

// NVML's readings of one GPU during a capture. Negative: the driver does not report the value.
struct GpuClocks {
  base::Rank rank = base::kNoRank;  // not in clocks.json
  std::string uuid;
  uint64_t samples = 0;
  int sm_lowest_mhz = -1;
  int sm_median_mhz = -1;
  int sm_limit_mhz = -1;  // of the GPU
  double power_w = -1;    // median
  double power_limit_w = -1;
  int temperature_c = -1;                // highest
  int utilization_percent = -1;          // median
  std::vector<ThrottleShare> throttled;  // reasons for a lower clock that some sample had
  std::string neighbour;  // another program that computed on the GPU for nearly all of the time; not kept
};

struct GpuCapture {
  double step_before_s = -1;  // median
  double step_during_s = -1;
  std::vector<RankActivity> ranks;
  std::vector<CapturedWork> work;  // by `path`, the largest first
  std::vector<GpuClocks> clocks;
  bool empty() const { return ranks.empty() && clocks.empty(); }
};

// captures/<n>/clocks.json, schema "xpurun.gpu-clocks/1": all GPUs of the host.
struct ClockSamples {
  double interval_s = 0;  // between two samples, as achieved
  std::string reason;     // why there are no samples
  std::vector<GpuClocks> gpus;
};
inline constexpr std::string_view kGpuClocksSchema = "xpurun.gpu-clocks/1";

nlohmann::ordered_json to_json(const ClockSamples& samples);
base::Result<ClockSamples> clock_samples_from_json(const nlohmann::json& j);
base::Result<ClockSamples> load_clock_samples(const std::string& path);

// Of gpu.json, without `work` and `clocks`.
nlohmann::ordered_json to_json(const GpuCapture& capture);
base::Result<GpuCapture> gpu_capture_from_json(const nlohmann::json& j);
base::Result<GpuCapture> load_gpu_capture(const std::string& path);

}  // namespace xpurun::model
