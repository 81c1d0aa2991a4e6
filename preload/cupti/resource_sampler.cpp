#include "preload/cupti/resource_sampler.h"

#include "preload/core/resolve.h"
#include "preload/cupti/cupti_library.h"

#include <stdlib.h>
#include <string.h>

namespace xpurun::preload::cupti {

namespace {

using wire::SamplingProblem;
using wire::SamplingStep;

constexpr uint64_t kIntervalNs = 100'000;
// On an H200 a sample of 7 metrics takes 21 kB of the image and some kB of the hardware's buffer.
constexpr uint32_t kImageSamples = 512;
constexpr size_t kHardwareBytes = size_t{64} << 20;
constexpr int kMostRounds = 256;  // of decoding, in one call
constexpr int kRelaxedMode = 2;   // cudaStreamCaptureModeRelaxed

bool is_switched_off() {
  const char* value = getenv(wire::kSamplingEnv);
  return value != nullptr && strcmp(value, "0") == 0;
}

// The sampling interval in ns. A long capture is sampled less often, because its samples must fit the memory.
uint64_t interval_of(uint32_t duration_ms) {
  const uint64_t least = duration_ms * kNsPerMs / (wire::kResourceSamples - wire::kResourceSamples / 16);
  return least > kIntervalNs ? least : kIntervalNs;
}

// CUPTI calls the driver on this thread. The rank's GPU must be the current device. The relaxed mode keeps
// these calls from invalidating a stream capture of another thread.
void use_device(int device) {
  using Exchange = int(int*);
  using SetDevice = int(int);
  constexpr char kRuntime[] = "libcudart.so";
  if (auto* exchange =
          reinterpret_cast<Exchange*>(find_in_library(kRuntime, "cudaThreadExchangeStreamCaptureMode"))) {
    int mode = kRelaxedMode;
    exchange(&mode);
  }
  if (auto* set_device = reinterpret_cast<SetDevice*>(find_in_library(kRuntime, "cudaSetDevice"))) {
    set_device(device);
  }
}

}  // namespace

bool ResourceSampler::fail(SamplingProblem problem, SamplingStep step, Result error) {
  // The first failure is the cause. Later failures follow from it.
  if (header_.problem.load() == static_cast<uint32_t>(SamplingProblem::none)) {
    header_.error.store(error);
    header_.step.store(static_cast<uint32_t>(step));
    header_.problem.store(static_cast<uint32_t>(problem));
  }
  return false;
}

// After an unknown metric a host object fails for good, and metrics added one by one need several passes. So
// each trial makes a new object and adds all metrics at once.
bool ResourceSampler::make_config(const char** names, size_t count, void*& host, size_t& passes,
                                  Result& result) {
  auto create = make_params<HostParams>();
  create.profiler = kPmSamplingProfiler;
  create.chip = chip_;
  create.availability = availability_.at();
  result = functions_.host_initialize(&create);
  host = result == kSuccess ? create.host : nullptr;
  if (result != kSuccess) {
    return false;
  }
  auto add = make_params<AddMetricsParams>();
  add.host = host;
  add.names = names;
  add.count = count;
  result = functions_.add_metrics(&add);
  if (result != kSuccess) {
    return false;
  }
  auto size = make_params<ConfigSizeParams>();
  size.host = host;
  result = functions_.config_size(&size);
  if (result != kSuccess || !config_.make(size.bytes)) {
    return false;
  }
  config_bytes_ = size.bytes;
  auto image = make_params<ConfigImageParams>();
  image.host = host;
  image.bytes = config_bytes_;
  image.image = config_.at();
  result = functions_.config_image(&image);
  if (result != kSuccess) {
    return false;
  }
  auto count_passes = make_params<PassesParams>();
  count_passes.bytes = config_bytes_;
  count_passes.image = config_.at();
  result = functions_.passes(&count_passes);
  passes = count_passes.passes;
  return result == kSuccess;
}

void ResourceSampler::drop_host(void*& host) const {
  if (host != nullptr) {
    auto params = make_params<HostEndParams>();
    params.host = host;
    functions_.host_deinitialize(&params);
    host = nullptr;
  }
}

bool ResourceSampler::accepts(void* self, const char** names, size_t count) {
  auto& sampler = *static_cast<ResourceSampler*>(self);
  void* host = nullptr;
  size_t passes = 0;
  Result result = kSuccess;
  const bool made = sampler.make_config(names, count, host, passes, result);
  sampler.drop_host(host);
  return made && passes == 1;
}

bool ResourceSampler::set_up() {
  if (is_switched_off()) {
    return fail(SamplingProblem::off);
  }
  if (!load_sampling_functions(functions_)) {
    return fail(SamplingProblem::no_functions);
  }
  const auto device = static_cast<size_t>(device_ < 0 ? 0 : device_);
  use_device(static_cast<int>(device));
  auto initialize = make_params<ProfilerParams>();
  if (const Result result = functions_.initialize(&initialize); result != kSuccess) {
    return refuse(SamplingStep::initialize, result);
  }
  initialized_ = true;
  auto chip = make_params<ChipNameParams>();
  chip.device = device;
  if (const Result result = functions_.chip_name(&chip); result != kSuccess) {
    return refuse(SamplingStep::chip, result);
  }
  chip_ = chip.chip;
  auto available = make_params<AvailabilityParams>();
  available.device = device;
  Result result = functions_.availability(&available);
  // The first call returns the size of the image, the second fills it.
  if (result == kSuccess && !availability_.make(available.image_bytes)) {
    return fail(SamplingProblem::no_memory);
  }
  if (result == kSuccess) {
    available.image = availability_.at();
    result = functions_.availability(&available);
  }
  if (result != kSuccess) {
    return refuse(SamplingStep::availability, result);
  }
  metrics_ = choose_metrics(accepts, this);
  if (metrics_.count == 0) {
    return fail(SamplingProblem::no_metrics);
  }
  size_t passes = 0;
  if (!make_config(metrics_.names, metrics_.count, host_, passes, result)) {
    return result == kSuccess ? fail(SamplingProblem::no_memory) : refuse(SamplingStep::config, result);
  }
  return enable();
}

bool ResourceSampler::enable() {
  auto enable = make_params<EnableParams>();
  enable.device = static_cast<size_t>(device_ < 0 ? 0 : device_);
  if (const Result result = functions_.enable(&enable); result != kSuccess) {
    return refuse(SamplingStep::enable, result);
  }
  sampling_ = enable.sampling;
  auto config = make_params<SetConfigParams>();
  config.sampling = sampling_;
  config.config_bytes = config_bytes_;
  config.config = config_.at();
  config.hardware_bytes = kHardwareBytes;
  config.interval = interval_of(memory_.header.duration_ms.load(std::memory_order_relaxed));
  config.trigger = kTimeInterval;
  config.append = kKeepOldest;
  if (const Result result = functions_.set_config(&config); result != kSuccess) {
    return refuse(SamplingStep::set_config, result);
  }
  header_.asked_ns.store(config.interval);
  auto size = make_params<ImageSizeParams>();
  size.sampling = sampling_;
  size.names = metrics_.names;
  size.count = metrics_.count;
  size.most_samples = kImageSamples;
  if (const Result result = functions_.image_size(&size); result != kSuccess) {
    return refuse(SamplingStep::image, result);
  }
  if (!image_.make(size.bytes)) {
    return fail(SamplingProblem::no_memory);
  }
  return clear_image();
}

bool ResourceSampler::clear_image() {
  auto params = make_params<ImageParams>();
  params.sampling = sampling_;
  params.bytes = image_.bytes();
  params.image = image_.at();
  taken_ = 0;
  is_first_ = true;
  const Result result = functions_.image_initialize(&params);
  return result == kSuccess || refuse(SamplingStep::image, result);
}

void ResourceSampler::prepare() {
  const uint64_t begin = now_ns();
  broken_ = !set_up();
  if (broken_) {
    give_up();
  } else {
    for (uint32_t i = 0; i < wire::kResources; ++i) {
      metrics_text(metrics_, static_cast<wire::Resource>(i), header_.metrics[i], wire::kMetricText);
    }
    header_.resources.store(metrics_.mask, std::memory_order_release);
  }
  header_.setup_ns.store(now_ns() - begin);
}

void ResourceSampler::start(int64_t to_host_ns) {
  if (broken_ || sampling_ == nullptr) {
    return;
  }
  to_host_ns_ = to_host_ns;
  auto params = make_params<SamplingParams>();
  params.sampling = sampling_;
  if (const Result result = functions_.start(&params); result != kSuccess) {
    broken_ = true;
    refuse(SamplingStep::start, result);
    give_up();
    return;
  }
  running_ = true;
}

// The begin of the first sample after a start or after clear_image() may be unknown.
void ResourceSampler::put(size_t index) {
  auto info = make_params<SampleInfoParams>();
  info.sampling = sampling_;
  info.image = image_.at();
  info.image_bytes = image_.bytes();
  info.index = index;
  double values[kMostMetrics] = {};
  auto evaluate = make_params<EvaluateParams>();
  evaluate.host = host_;
  evaluate.image = image_.at();
  evaluate.image_bytes = image_.bytes();
  evaluate.index = index;
  evaluate.names = metrics_.names;
  evaluate.count = metrics_.count;
  evaluate.values = values;
  Result result = functions_.sample_info(&info);
  const bool known = result == kSuccess && info.begin < info.end && info.end - info.begin <= UINT32_MAX;
  // The sample begins where the last one ended, within a quarter of its duration: none is missing between
  // them.
  const bool follows = last_end_ != 0 && info.begin <= last_end_ + (info.end - info.begin) / 4 &&
                       last_end_ <= info.begin + (info.end - info.begin) / 4;
  const bool is_start = last_end_ == 0;
  if (known) {
    last_end_ = info.end;
  }
  if (!known || (is_first_ && !follows)) {
    is_first_ = false;
    header_.lost.fetch_add(is_start ? 0 : 1, std::memory_order_relaxed);
    return;
  }
  is_first_ = false;
  result = functions_.evaluate(&evaluate);
  if (result != kSuccess) {
    broken_ = true;
    refuse(SamplingStep::evaluate, result);
    return;
  }
  if (samples_ >= wire::kResourceSamples) {
    header_.lost.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  wire::ResourceSample out{};
  out.begin_ns = info.begin + static_cast<uint64_t>(to_host_ns_);
  out.duration_ns = static_cast<uint32_t>(info.end - info.begin);
  for (size_t i = 0; i < metrics_.count; ++i) {
    out.values[static_cast<size_t>(metrics_.resources[i])] +=
        static_cast<float>(in_unit(metrics_.resources[i], values[i]));
  }
  memory_.samples[samples_] = out;
  header_.samples.store(++samples_, std::memory_order_release);
}

bool ResourceSampler::decode(bool& is_full) {
  auto params = make_params<DecodeParams>();
  params.sampling = sampling_;
  params.image = image_.at();
  params.image_bytes = image_.bytes();
  const Result result = functions_.decode(&params);
  if (params.overflow != 0) {
    header_.overflows.fetch_add(1, std::memory_order_relaxed);
  }
  if (result != kSuccess) {
    return refuse(SamplingStep::decode, result);
  }
  is_full = params.stop_reason == kImageFull;
  auto info = make_params<ImageInfoParams>();
  info.image = image_.at();
  info.image_bytes = image_.bytes();
  if (const Result told = functions_.image_info(&info); told != kSuccess) {
    return refuse(SamplingStep::decode, told);
  }
  while (!broken_ && taken_ < info.completed) {
    put(taken_++);
  }
  // Clearing the image loses samples that are only partly decoded, so it waits until all are complete.
  const bool is_whole = info.populated == info.completed && taken_ >= kImageSamples / 2;
  return !broken_ && ((!is_full && !is_whole) || clear_image());
}

void ResourceSampler::take() {
  if (!running_ || broken_) {
    return;
  }
  const uint64_t begin = now_ns();
  bool is_full = true;
  // Bounded, because the GPU may fill the image as fast as it is decoded.
  for (int i = 0; is_full && i < kMostRounds; ++i) {
    if (!decode(is_full)) {
      broken_ = true;
      break;
    }
  }
  header_.handling_ns.fetch_add(now_ns() - begin, std::memory_order_relaxed);
}

void ResourceSampler::stop(bool clock_is_sound) {
  if (!running_) {
    return;
  }
  const uint64_t begin = now_ns();
  auto params = make_params<SamplingParams>();
  params.sampling = sampling_;
  functions_.stop(&params);
  take();
  running_ = false;
  if (!clock_is_sound) {
    fail(SamplingProblem::clock);
  }
  header_.stop_ns.fetch_add(now_ns() - begin);
}

// Runs before the capture begins, so its time does not count as the end of the capture.
void ResourceSampler::give_up() {
  end();
  header_.stop_ns.store(0);
}

// Without disable(), a later enable() would be refused.
void ResourceSampler::end() {
  const uint64_t begin = now_ns();
  if (sampling_ != nullptr) {
    auto params = make_params<SamplingParams>();
    params.sampling = sampling_;
    if (running_) {
      functions_.stop(&params);
    }
    functions_.disable(&params);
  }
  running_ = false;
  sampling_ = nullptr;
  drop_host(host_);
  if (initialized_) {
    auto params = make_params<ProfilerParams>();
    functions_.deinitialize(&params);
    initialized_ = false;
    header_.stop_ns.fetch_add(now_ns() - begin);
  }
}

}  // namespace xpurun::preload::cupti
