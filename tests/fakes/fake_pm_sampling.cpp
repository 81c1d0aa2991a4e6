// PM sampling of the stand-in for libcupti.so.13. Samples begin with the made milliseconds. A sample has the
// part of its time in which the made kernels were running: the kernel takes 97 % of the tensor pipes and 20 %
// of DRAM, the collective receives 100 GB/s by NVLink. This chip has no pcie__throughput of TriageCompute,
// and sends nothing by NVLink. FAKE_PM says how CUPTI misbehaves: "busy", "privileges", "mig", "metrics" (it
// knows none), "config" (SetConfig fails), "start", "decode" (fails from 0.2 s on), "overflow", "clock"
// (another client changes CUPTI's clock), "slow" (the set-up takes a second). FAKE_PM_STARTED: a file with
// this name and the pid appears once sampling has started, and one with "-setup" before the pid at the begin
// of the set-up.
#include "preload/cupti/sampling_abi.h"
#include "tests/fakes/fake_cupti.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

using namespace xpurun::preload::cupti;
using namespace xpurun::fakes;

namespace {

constexpr Result kInvalidParameter = 1;
constexpr Result kInvalidOperation = 7;
constexpr Result kUnknown = 999;
constexpr uint64_t kSetupUs = 60'000;
constexpr int kSlowSetups = 17;
constexpr uint64_t kMig = 43;

constexpr std::string_view kKnown[] = {
    "TPC.TriageCompute.sm__cycles_active.avg.pct_of_peak_sustained_elapsed",
    "TPC.TriageCompute.sm__pipe_tensor_cycles_active_realtime.avg.pct_of_peak_sustained_elapsed",
    "FBSP.TriageCompute.dramc__throughput.avg.pct_of_peak_sustained_elapsed",
    "NVLRX.TriageCompute.nvlrx__bytes_packet_request_data_user.sum.per_second",
    "NVLRX.TriageCompute.nvlrx__bytes_packet_response_data_user.sum.per_second",
    "pcie__throughput.avg.pct_of_peak_sustained_elapsed",
};

struct Host {
  std::vector<std::string> names;
  size_t passes = 0;
  bool spoilt = false;
};

struct Sample {
  uint64_t begin = 0;
  uint64_t end = 0;
};

bool g_libraries_destroyed = false;
bool g_sampling_enabled = false;
bool g_running = false;
uint64_t g_interval = 0;
uint64_t g_begin = 0;  // of the sampling
uint64_t g_until = 0;  // its end
uint64_t g_next = 0;   // begin of the next sample
std::vector<Sample> g_image;
size_t g_capacity = 0;

std::string_view pm_mode() {
  const char* value = std::getenv("FAKE_PM");
  return value == nullptr ? "" : value;
}

void appear(const std::string& what) {
  if (const char* name = std::getenv("FAKE_PM_STARTED")) {
    std::ofstream(name + what + "." + std::to_string(getpid()));
  }
}

template <typename P>
bool is_wrong(const P* params) {
  return params == nullptr || params->size != kParamsBytes<P> || params->none != nullptr;
}

// Part of the sample in which work of each millisecond's [from, to) was running.
double part(const Sample& sample, uint64_t from, uint64_t to) {
  const uint64_t phase = phase_ns() % kMs;
  uint64_t running = 0;
  uint64_t ms = sample.begin - (sample.begin - phase) % kMs;
  for (; ms < sample.end; ms += kMs) {
    const uint64_t begin = std::max(sample.begin, ms + from);
    const uint64_t end = std::min(sample.end, ms + to);
    running += end > begin ? end - begin : 0;
  }
  return static_cast<double>(running) / static_cast<double>(sample.end - sample.begin);
}

double value_of(std::string_view name, const Sample& sample) {
  const double kernel = part(sample, kKernelBegin, kKernelEnd);
  const double collective = part(sample, kCollectiveBegin, kCollectiveEnd);
  if (name.find("sm__cycles_active") != std::string_view::npos) {
    return 100 * part(sample, kKernelBegin, kCollectiveEnd);
  }
  if (name.find("tensor") != std::string_view::npos) {
    return 97 * kernel;
  }
  if (name.find("dramc") != std::string_view::npos) {
    return 20 * kernel;
  }
  if (name.find("nvlrx") != std::string_view::npos) {
    return 5e10 * collective;  // two metrics
  }
  return 0.5;
}

}  // namespace

extern "C" {

Result cuptiProfilerInitialize(ProfilerParams* p) {
  // libnvperf_host.so is loaded here; its destructors run before the exit handlers of libraries loaded
  // earlier.
  static const int registered = std::atexit([] { g_libraries_destroyed = true; });
  (void)registered;
  appear("-setup");
  for (int i = 0; i < (pm_mode() == "slow" ? kSlowSetups : 1); ++i) {
    usleep(kSetupUs);
    if (g_libraries_destroyed) {
      std::abort();  // NVPW_CUDA_LoadDriver in a library whose destructors have run
    }
  }
  return is_wrong(p) ? kInvalidParameter : kSuccess;
}
Result cuptiProfilerDeInitialize(ProfilerParams* p) {
  return is_wrong(p) ? kInvalidParameter : kSuccess;
}
Result cuptiDeviceGetChipName(ChipNameParams* p) {
  if (is_wrong(p)) {
    return kInvalidParameter;
  }
  p->chip = "GH100";
  return kSuccess;
}
Result cuptiPmSamplingGetCounterAvailability(AvailabilityParams* p) {
  if (is_wrong(p)) {
    return kInvalidParameter;
  }
  if (pm_mode() == "busy" || pm_mode() == "mig") {
    return pm_mode() == "busy" ? kHardwareBusy : static_cast<Result>(kMig);
  }
  if (p->image != nullptr) {
    std::memset(p->image, 1, p->image_bytes);
  }
  p->image_bytes = 1000;
  return kSuccess;
}
Result cuptiProfilerHostInitialize(HostParams* p) {
  if (is_wrong(p) || p->profiler != kPmSamplingProfiler || p->availability == nullptr ||
      p->availability[999] != 1) {
    return kInvalidParameter;
  }
  p->host = new Host;
  return kSuccess;
}
Result cuptiProfilerHostDeinitialize(HostEndParams* p) {
  if (is_wrong(p)) {
    return kInvalidParameter;
  }
  delete static_cast<Host*>(p->host);
  return kSuccess;
}
// An unknown name spoils the object; each call adds a pass.
Result cuptiProfilerHostConfigAddMetrics(AddMetricsParams* p) {
  auto* host = static_cast<Host*>(p->host);
  if (is_wrong(p) || host->spoilt) {
    return kInvalidParameter;
  }
  for (size_t i = 0; i < p->count; ++i) {
    const bool known = std::find(std::begin(kKnown), std::end(kKnown), p->names[i]) != std::end(kKnown);
    if (!known || pm_mode() == "metrics") {
      host->spoilt = true;
      return kUnknown;
    }
    host->names.emplace_back(p->names[i]);
  }
  ++host->passes;
  return kSuccess;
}
Result cuptiProfilerHostGetConfigImageSize(ConfigSizeParams* p) {
  if (is_wrong(p)) {
    return kInvalidParameter;
  }
  p->bytes = 100 * static_cast<Host*>(p->host)->names.size();
  return kSuccess;
}
Result cuptiProfilerHostGetConfigImage(ConfigImageParams* p) {
  auto* host = static_cast<Host*>(p->host);
  if (is_wrong(p) || p->bytes != 100 * host->names.size()) {
    return kInvalidParameter;
  }
  std::memset(p->image, 0, p->bytes);
  p->image[0] = static_cast<uint8_t>(host->passes);
  return kSuccess;
}
Result cuptiProfilerHostGetNumOfPasses(PassesParams* p) {
  if (is_wrong(p)) {
    return kInvalidParameter;
  }
  p->passes = p->image[0];
  return kSuccess;
}
Result cuptiProfilerHostEvaluateToGpuValues(EvaluateParams* p) {
  const auto* host = static_cast<Host*>(p->host);
  if (is_wrong(p) || p->index >= g_image.size() || p->count != host->names.size()) {
    return kInvalidParameter;
  }
  for (size_t i = 0; i < p->count; ++i) {
    p->values[i] = value_of(p->names[i], g_image[p->index]);
  }
  return kSuccess;
}
Result cuptiPmSamplingEnable(EnableParams* p) {
  if (is_wrong(p) || g_sampling_enabled) {
    return g_sampling_enabled ? kInvalidOperation : kInvalidParameter;
  }
  if (pm_mode() == "privileges") {
    return kInsufficientPrivileges;
  }
  g_sampling_enabled = true;
  p->sampling = &g_sampling_enabled;
  return kSuccess;
}
Result cuptiPmSamplingDisable(SamplingParams* p) {
  if (is_wrong(p) || !g_sampling_enabled) {
    return kInvalidOperation;
  }
  g_sampling_enabled = false;
  return kSuccess;
}
Result cuptiPmSamplingSetConfig(SetConfigParams* p) {
  if (is_wrong(p) || !g_sampling_enabled || p->trigger != kTimeInterval) {
    return kInvalidParameter;
  }
  if (pm_mode() == "config" || p->config[0] != 1) {
    return kUnknown;
  }
  g_interval = p->interval;
  return kSuccess;
}
Result cuptiPmSamplingStart(SamplingParams* p) {
  if (is_wrong(p) || !g_sampling_enabled || pm_mode() == "start") {
    return kInvalidOperation;
  }
  const uint64_t now = cupti_now();
  g_begin = now - (now - phase_ns()) % g_interval + g_interval;
  g_next = g_begin;
  appear("");
  g_running = true;
  return kSuccess;
}
Result cuptiPmSamplingStop(SamplingParams* p) {
  if (g_libraries_destroyed) {
    std::abort();  // "double free or corruption"
  }
  if (is_wrong(p) || !g_running) {
    return kInvalidOperation;
  }
  g_until = cupti_now();
  g_running = false;
  return kSuccess;
}
Result cuptiPmSamplingGetCounterDataSize(ImageSizeParams* p) {
  if (is_wrong(p) || p->count == 0) {
    return kInvalidParameter;
  }
  g_capacity = p->most_samples;
  p->bytes = 16 + size_t{100} * p->most_samples;
  return kSuccess;
}
Result cuptiPmSamplingCounterDataImageInitialize(ImageParams* p) {
  if (is_wrong(p) || p->bytes != 16 + 100 * g_capacity) {
    return kInvalidParameter;
  }
  g_image.clear();
  return kSuccess;
}
// The first sample begins long before the start.
Result cuptiPmSamplingDecodeData(DecodeParams* p) {
  if (is_wrong(p) || !g_sampling_enabled) {
    return kInvalidParameter;
  }
  const uint64_t now = g_running ? cupti_now() : g_until;
  if (pm_mode() == "decode" && now > g_begin + 200 * kMs) {
    return kUnknown;
  }
  while (g_next + g_interval <= now && g_image.size() < g_capacity) {
    g_image.push_back({g_next == g_begin ? g_next - 5000 * kMs : g_next, g_next + g_interval});
    g_next += g_interval;
  }
  p->overflow = pm_mode() == "overflow" ? 1 : 0;
  p->stop_reason = g_image.size() == g_capacity ? kImageFull : 2;
  return kSuccess;
}
Result cuptiPmSamplingGetCounterDataInfo(ImageInfoParams* p) {
  if (is_wrong(p)) {
    return kInvalidParameter;
  }
  p->total = g_capacity;
  p->populated = g_image.size();
  p->completed = g_image.size();
  return kSuccess;
}
Result cuptiPmSamplingCounterDataGetSampleInfo(SampleInfoParams* p) {
  if (is_wrong(p) || p->index >= g_image.size()) {
    return kInvalidParameter;
  }
  p->begin = g_image[p->index].begin;
  p->end = g_image[p->index].end;
  return kSuccess;
}
}
