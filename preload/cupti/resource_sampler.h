// ResourceSampler: CUPTI's PM sampling of one GPU during a capture. A failure at any step ends the sampling,
// is recorded in the memory's SamplingHeader, and affects nothing else. One thread.
#pragma once

#include "common/wire/capture.h"
#include "preload/core/clock.h"
#include "preload/cupti/mapped_bytes.h"
#include "preload/cupti/resource_metrics.h"
#include "preload/cupti/sampling_abi.h"

#include <stddef.h>
#include <stdint.h>

namespace xpurun::preload::cupti {

class ResourceSampler {
 public:
  // How often to call take().
  static constexpr uint64_t kTakeEveryNs = 25 * kNsPerMs;

  // `memory` outlives this object. `device`: CUDA's number of the GPU.
  ResourceSampler(wire::CaptureSegment& memory, int32_t device)
      : memory_(memory), header_(memory.header.sampling), device_(device) {}
  ~ResourceSampler() { end(); }
  ResourceSampler(const ResourceSampler&) = delete;
  ResourceSampler& operator=(const ResourceSampler&) = delete;

  // Everything before the start; about half a second, mostly CUPTI's.
  void prepare();
  // `to_host_ns` is added to CUPTI's times to get CLOCK_MONOTONIC.
  void start(int64_t to_host_ns);
  // Fetches the samples that are there.
  void take();
  // Fetches the rest. `clock_is_sound`: CUPTI's clock ran like the host's.
  void stop(bool clock_is_sound);
  // Gives the counters and CUPTI's memory back.
  void end();

 private:
  static bool accepts(void* self, const char** names, size_t count);

  bool set_up();
  bool make_config(const char** names, size_t count, void*& host, size_t& passes, Result& result);
  void drop_host(void*& host) const;
  bool enable();
  bool clear_image();
  bool decode(bool& is_full);
  void put(size_t index);
  void give_up();
  // Always false.
  bool fail(wire::SamplingProblem problem, wire::SamplingStep step = wire::SamplingStep::none,
            Result error = kSuccess);
  bool refuse(wire::SamplingStep step, Result error) { return fail(problem_of(error), step, error); }

  wire::CaptureSegment& memory_;
  wire::SamplingHeader& header_;
  int32_t device_;
  SamplingFunctions functions_{};
  bool initialized_ = false;
  bool running_ = false;
  bool broken_ = false;
  const char* chip_ = nullptr;
  MappedBytes availability_;
  MappedBytes config_;
  size_t config_bytes_ = 0;
  MappedBytes image_;
  ChosenMetrics metrics_;
  void* host_ = nullptr;
  void* sampling_ = nullptr;
  int64_t to_host_ns_ = 0;
  size_t taken_ = 0;       // samples of the image
  bool is_first_ = true;   // no sample since the image was cleared
  uint64_t last_end_ = 0;  // of the latest sample, CUPTI's clock; 0: none
  uint64_t samples_ = 0;
};

}  // namespace xpurun::preload::cupti
