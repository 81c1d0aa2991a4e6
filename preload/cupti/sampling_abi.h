// The used part of CUPTI's PM sampling (cupti_pmsampling.h, since CUDA 12.6) and of the profiler's host
// (cupti_profiler_host.h), as own prototypes. Every function takes one structure, whose first member is its
// size; later versions append members. tests/preload/cupti_check.cpp compares them with the headers.
#pragma once

#include "preload/cupti/cupti_abi.h"

#include <stddef.h>
#include <stdint.h>

namespace xpurun::preload::cupti {

inline constexpr Result kHardwareBusy = 26;
inline constexpr Result kNotSupported = 27;
inline constexpr Result kVirtualizedNotSupported = 33;
inline constexpr Result kInsufficientPrivileges = 35;
inline constexpr Result kVirtualizedInsufficientPrivileges = 40;
inline constexpr Result kCmpNotSupported = 42;
inline constexpr Result kWslNotSupported = 45;

inline constexpr uint32_t kPmSamplingProfiler = 1;  // CUPTI_PROFILER_TYPE_PM_SAMPLING
inline constexpr uint32_t kTimeInterval = 1;        // CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL
inline constexpr uint32_t kKeepOldest = 0;          // CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_…
inline constexpr uint32_t kImageFull = 1;           // CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL

// CUpti_Profiler_Initialize_Params, CUpti_Profiler_DeInitialize_Params
struct ProfilerParams {
  size_t size;
  void* none;
};

// CUpti_Device_GetChipName_Params
struct ChipNameParams {
  size_t size;
  void* none;
  size_t device;
  const char* chip;
};

// CUpti_PmSampling_GetCounterAvailability_Params
struct AvailabilityParams {
  size_t size;
  void* none;
  size_t device;
  size_t image_bytes;
  uint8_t* image;  // nullptr: asks for `image_bytes`
};

// CUpti_Profiler_Host_Initialize_Params
struct HostParams {
  size_t size;
  void* none;
  uint32_t profiler;
  const char* chip;
  const uint8_t* availability;
  void* host;
};

// CUpti_Profiler_Host_Deinitialize_Params
struct HostEndParams {
  size_t size;
  void* none;
  void* host;
};

// CUpti_Profiler_Host_ConfigAddMetrics_Params
struct AddMetricsParams {
  size_t size;
  void* none;
  void* host;
  const char** names;
  size_t count;
};

// CUpti_Profiler_Host_GetConfigImageSize_Params
struct ConfigSizeParams {
  size_t size;
  void* none;
  void* host;
  size_t bytes;
};

// CUpti_Profiler_Host_GetConfigImage_Params
struct ConfigImageParams {
  size_t size;
  void* none;
  void* host;
  size_t bytes;
  uint8_t* image;
};

// CUpti_Profiler_Host_GetNumOfPasses_Params
struct PassesParams {
  size_t size;
  void* none;
  size_t bytes;
  uint8_t* image;
  size_t passes;
};

// CUpti_Profiler_Host_EvaluateToGpuValues_Params
struct EvaluateParams {
  size_t size;
  void* none;
  void* host;
  const uint8_t* image;
  size_t image_bytes;
  size_t index;
  const char** names;
  size_t count;
  double* values;
};

// CUpti_PmSampling_Enable_Params
struct EnableParams {
  size_t size;
  void* none;
  size_t device;
  void* sampling;
};

// CUpti_PmSampling_Start_Params, CUpti_PmSampling_Stop_Params, CUpti_PmSampling_Disable_Params
struct SamplingParams {
  size_t size;
  void* none;
  void* sampling;
};

// CUpti_PmSampling_SetConfig_Params
struct SetConfigParams {
  size_t size;
  void* none;
  void* sampling;
  size_t config_bytes;
  const uint8_t* config;
  size_t hardware_bytes;
  uint64_t interval;  // ns
  uint32_t trigger;
  uint32_t append;
};

// CUpti_PmSampling_GetCounterDataSize_Params
struct ImageSizeParams {
  size_t size;
  void* none;
  void* sampling;
  const char** names;
  size_t count;
  uint32_t most_samples;
  size_t bytes;
};

// CUpti_PmSampling_CounterDataImage_Initialize_Params
struct ImageParams {
  size_t size;
  void* none;
  void* sampling;
  size_t bytes;
  uint8_t* image;
};

// CUpti_PmSampling_DecodeData_Params
struct DecodeParams {
  size_t size;
  void* none;
  void* sampling;
  uint8_t* image;
  size_t image_bytes;
  uint32_t stop_reason;
  uint8_t overflow;
};

// CUpti_PmSampling_GetCounterDataInfo_Params
struct ImageInfoParams {
  size_t size;
  void* none;
  const uint8_t* image;
  size_t image_bytes;
  size_t total;
  size_t populated;
  size_t completed;
};

// CUpti_PmSampling_CounterData_GetSampleInfo_Params
struct SampleInfoParams {
  size_t size;
  void* none;
  void* sampling;
  const uint8_t* image;
  size_t image_bytes;
  size_t index;
  uint64_t begin;
  uint64_t end;
};

// The headers' ..._STRUCT_SIZE: up to the end of the last member.
template <typename P>
inline constexpr size_t kParamsBytes = sizeof(P);
template <>
inline constexpr size_t kParamsBytes<DecodeParams> = offsetof(DecodeParams, overflow) + 1;

template <typename P>
P make_params() {
  P out{};
  out.size = kParamsBytes<P>;
  return out;
}

struct SamplingFunctions {
  Result (*initialize)(ProfilerParams*);
  Result (*deinitialize)(ProfilerParams*);
  Result (*chip_name)(ChipNameParams*);
  Result (*availability)(AvailabilityParams*);
  Result (*host_initialize)(HostParams*);
  Result (*host_deinitialize)(HostEndParams*);
  Result (*add_metrics)(AddMetricsParams*);
  Result (*config_size)(ConfigSizeParams*);
  Result (*config_image)(ConfigImageParams*);
  Result (*passes)(PassesParams*);
  Result (*evaluate)(EvaluateParams*);
  Result (*enable)(EnableParams*);
  Result (*disable)(SamplingParams*);
  Result (*set_config)(SetConfigParams*);
  Result (*start)(SamplingParams*);
  Result (*stop)(SamplingParams*);
  Result (*image_size)(ImageSizeParams*);
  Result (*image_initialize)(ImageParams*);
  Result (*decode)(DecodeParams*);
  Result (*image_info)(ImageInfoParams*);
  Result (*sample_info)(SampleInfoParams*);
};

}  // namespace xpurun::preload::cupti
