// Compares the declarations of CUPTI's PM sampling with the real headers. Compiling is the test.
#include "preload/cupti/cupti_abi.h"
#include "preload/cupti/sampling_abi.h"

#include <cstddef>
#include <cstdio>
#include <cupti.h>
#include <cupti_pmsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_target.h>

namespace ours = xpurun::preload::cupti;

// Size as CUPTI's headers say, and the place and size of each member.
#define CHECK_SIZE(Ours, Real)                                                  \
  static_assert(ours::kParamsBytes<ours::Ours> == Real##_STRUCT_SIZE, #Real);   \
  static_assert(sizeof(ours::Ours) == sizeof(Real) &&                           \
                    offsetof(ours::Ours, size) == offsetof(Real, structSize) && \
                    offsetof(ours::Ours, none) == offsetof(Real, pPriv),        \
                #Real)
#define CHECK_MEMBER(Ours, member, Real, theirs)                          \
  static_assert(offsetof(ours::Ours, member) == offsetof(Real, theirs) && \
                    sizeof(ours::Ours::member) == sizeof(Real::theirs),   \
                #Real "::" #theirs)

CHECK_SIZE(ProfilerParams, CUpti_Profiler_Initialize_Params);
CHECK_SIZE(ProfilerParams, CUpti_Profiler_DeInitialize_Params);

CHECK_SIZE(ChipNameParams, CUpti_Device_GetChipName_Params);
CHECK_MEMBER(ChipNameParams, device, CUpti_Device_GetChipName_Params, deviceIndex);
CHECK_MEMBER(ChipNameParams, chip, CUpti_Device_GetChipName_Params, pChipName);

CHECK_SIZE(AvailabilityParams, CUpti_PmSampling_GetCounterAvailability_Params);
CHECK_MEMBER(AvailabilityParams, device, CUpti_PmSampling_GetCounterAvailability_Params, deviceIndex);
CHECK_MEMBER(AvailabilityParams, image_bytes, CUpti_PmSampling_GetCounterAvailability_Params,
             counterAvailabilityImageSize);
CHECK_MEMBER(AvailabilityParams, image, CUpti_PmSampling_GetCounterAvailability_Params,
             pCounterAvailabilityImage);

CHECK_SIZE(HostParams, CUpti_Profiler_Host_Initialize_Params);
CHECK_MEMBER(HostParams, profiler, CUpti_Profiler_Host_Initialize_Params, profilerType);
CHECK_MEMBER(HostParams, chip, CUpti_Profiler_Host_Initialize_Params, pChipName);
CHECK_MEMBER(HostParams, availability, CUpti_Profiler_Host_Initialize_Params, pCounterAvailabilityImage);
CHECK_MEMBER(HostParams, host, CUpti_Profiler_Host_Initialize_Params, pHostObject);

CHECK_SIZE(HostEndParams, CUpti_Profiler_Host_Deinitialize_Params);
CHECK_MEMBER(HostEndParams, host, CUpti_Profiler_Host_Deinitialize_Params, pHostObject);

CHECK_SIZE(AddMetricsParams, CUpti_Profiler_Host_ConfigAddMetrics_Params);
CHECK_MEMBER(AddMetricsParams, host, CUpti_Profiler_Host_ConfigAddMetrics_Params, pHostObject);
CHECK_MEMBER(AddMetricsParams, names, CUpti_Profiler_Host_ConfigAddMetrics_Params, ppMetricNames);
CHECK_MEMBER(AddMetricsParams, count, CUpti_Profiler_Host_ConfigAddMetrics_Params, numMetrics);

CHECK_SIZE(ConfigSizeParams, CUpti_Profiler_Host_GetConfigImageSize_Params);
CHECK_MEMBER(ConfigSizeParams, host, CUpti_Profiler_Host_GetConfigImageSize_Params, pHostObject);
CHECK_MEMBER(ConfigSizeParams, bytes, CUpti_Profiler_Host_GetConfigImageSize_Params, configImageSize);

CHECK_SIZE(ConfigImageParams, CUpti_Profiler_Host_GetConfigImage_Params);
CHECK_MEMBER(ConfigImageParams, host, CUpti_Profiler_Host_GetConfigImage_Params, pHostObject);
CHECK_MEMBER(ConfigImageParams, bytes, CUpti_Profiler_Host_GetConfigImage_Params, configImageSize);
CHECK_MEMBER(ConfigImageParams, image, CUpti_Profiler_Host_GetConfigImage_Params, pConfigImage);

CHECK_SIZE(PassesParams, CUpti_Profiler_Host_GetNumOfPasses_Params);
CHECK_MEMBER(PassesParams, bytes, CUpti_Profiler_Host_GetNumOfPasses_Params, configImageSize);
CHECK_MEMBER(PassesParams, image, CUpti_Profiler_Host_GetNumOfPasses_Params, pConfigImage);
CHECK_MEMBER(PassesParams, passes, CUpti_Profiler_Host_GetNumOfPasses_Params, numOfPasses);

CHECK_SIZE(EvaluateParams, CUpti_Profiler_Host_EvaluateToGpuValues_Params);
CHECK_MEMBER(EvaluateParams, host, CUpti_Profiler_Host_EvaluateToGpuValues_Params, pHostObject);
CHECK_MEMBER(EvaluateParams, image, CUpti_Profiler_Host_EvaluateToGpuValues_Params, pCounterDataImage);
CHECK_MEMBER(EvaluateParams, image_bytes, CUpti_Profiler_Host_EvaluateToGpuValues_Params,
             counterDataImageSize);
CHECK_MEMBER(EvaluateParams, index, CUpti_Profiler_Host_EvaluateToGpuValues_Params, rangeIndex);
CHECK_MEMBER(EvaluateParams, names, CUpti_Profiler_Host_EvaluateToGpuValues_Params, ppMetricNames);
CHECK_MEMBER(EvaluateParams, count, CUpti_Profiler_Host_EvaluateToGpuValues_Params, numMetrics);
CHECK_MEMBER(EvaluateParams, values, CUpti_Profiler_Host_EvaluateToGpuValues_Params, pMetricValues);

CHECK_SIZE(EnableParams, CUpti_PmSampling_Enable_Params);
CHECK_MEMBER(EnableParams, device, CUpti_PmSampling_Enable_Params, deviceIndex);
CHECK_MEMBER(EnableParams, sampling, CUpti_PmSampling_Enable_Params, pPmSamplingObject);

CHECK_SIZE(SamplingParams, CUpti_PmSampling_Start_Params);
CHECK_MEMBER(SamplingParams, sampling, CUpti_PmSampling_Start_Params, pPmSamplingObject);
CHECK_SIZE(SamplingParams, CUpti_PmSampling_Stop_Params);
CHECK_MEMBER(SamplingParams, sampling, CUpti_PmSampling_Stop_Params, pPmSamplingObject);
CHECK_SIZE(SamplingParams, CUpti_PmSampling_Disable_Params);
CHECK_MEMBER(SamplingParams, sampling, CUpti_PmSampling_Disable_Params, pPmSamplingObject);

CHECK_SIZE(SetConfigParams, CUpti_PmSampling_SetConfig_Params);
CHECK_MEMBER(SetConfigParams, sampling, CUpti_PmSampling_SetConfig_Params, pPmSamplingObject);
CHECK_MEMBER(SetConfigParams, config_bytes, CUpti_PmSampling_SetConfig_Params, configSize);
CHECK_MEMBER(SetConfigParams, config, CUpti_PmSampling_SetConfig_Params, pConfig);
CHECK_MEMBER(SetConfigParams, hardware_bytes, CUpti_PmSampling_SetConfig_Params, hardwareBufferSize);
CHECK_MEMBER(SetConfigParams, interval, CUpti_PmSampling_SetConfig_Params, samplingInterval);
CHECK_MEMBER(SetConfigParams, trigger, CUpti_PmSampling_SetConfig_Params, triggerMode);
CHECK_MEMBER(SetConfigParams, append, CUpti_PmSampling_SetConfig_Params, hwBufferAppendMode);

CHECK_SIZE(ImageSizeParams, CUpti_PmSampling_GetCounterDataSize_Params);
CHECK_MEMBER(ImageSizeParams, sampling, CUpti_PmSampling_GetCounterDataSize_Params, pPmSamplingObject);
CHECK_MEMBER(ImageSizeParams, names, CUpti_PmSampling_GetCounterDataSize_Params, pMetricNames);
CHECK_MEMBER(ImageSizeParams, count, CUpti_PmSampling_GetCounterDataSize_Params, numMetrics);
CHECK_MEMBER(ImageSizeParams, most_samples, CUpti_PmSampling_GetCounterDataSize_Params, maxSamples);
CHECK_MEMBER(ImageSizeParams, bytes, CUpti_PmSampling_GetCounterDataSize_Params, counterDataSize);

CHECK_SIZE(ImageParams, CUpti_PmSampling_CounterDataImage_Initialize_Params);
CHECK_MEMBER(ImageParams, sampling, CUpti_PmSampling_CounterDataImage_Initialize_Params, pPmSamplingObject);
CHECK_MEMBER(ImageParams, bytes, CUpti_PmSampling_CounterDataImage_Initialize_Params, counterDataSize);
CHECK_MEMBER(ImageParams, image, CUpti_PmSampling_CounterDataImage_Initialize_Params, pCounterData);

CHECK_SIZE(DecodeParams, CUpti_PmSampling_DecodeData_Params);
CHECK_MEMBER(DecodeParams, sampling, CUpti_PmSampling_DecodeData_Params, pPmSamplingObject);
CHECK_MEMBER(DecodeParams, image, CUpti_PmSampling_DecodeData_Params, pCounterDataImage);
CHECK_MEMBER(DecodeParams, image_bytes, CUpti_PmSampling_DecodeData_Params, counterDataImageSize);
CHECK_MEMBER(DecodeParams, stop_reason, CUpti_PmSampling_DecodeData_Params, decodeStopReason);
CHECK_MEMBER(DecodeParams, overflow, CUpti_PmSampling_DecodeData_Params, overflow);

CHECK_SIZE(ImageInfoParams, CUpti_PmSampling_GetCounterDataInfo_Params);
CHECK_MEMBER(ImageInfoParams, image, CUpti_PmSampling_GetCounterDataInfo_Params, pCounterDataImage);
CHECK_MEMBER(ImageInfoParams, image_bytes, CUpti_PmSampling_GetCounterDataInfo_Params, counterDataImageSize);
CHECK_MEMBER(ImageInfoParams, total, CUpti_PmSampling_GetCounterDataInfo_Params, numTotalSamples);
CHECK_MEMBER(ImageInfoParams, populated, CUpti_PmSampling_GetCounterDataInfo_Params, numPopulatedSamples);
CHECK_MEMBER(ImageInfoParams, completed, CUpti_PmSampling_GetCounterDataInfo_Params, numCompletedSamples);

CHECK_SIZE(SampleInfoParams, CUpti_PmSampling_CounterData_GetSampleInfo_Params);
CHECK_MEMBER(SampleInfoParams, sampling, CUpti_PmSampling_CounterData_GetSampleInfo_Params,
             pPmSamplingObject);
CHECK_MEMBER(SampleInfoParams, image, CUpti_PmSampling_CounterData_GetSampleInfo_Params, pCounterDataImage);
CHECK_MEMBER(SampleInfoParams, image_bytes, CUpti_PmSampling_CounterData_GetSampleInfo_Params,
             counterDataImageSize);
CHECK_MEMBER(SampleInfoParams, index, CUpti_PmSampling_CounterData_GetSampleInfo_Params, sampleIndex);
CHECK_MEMBER(SampleInfoParams, begin, CUpti_PmSampling_CounterData_GetSampleInfo_Params, startTimestamp);
CHECK_MEMBER(SampleInfoParams, end, CUpti_PmSampling_CounterData_GetSampleInfo_Params, endTimestamp);

static_assert(ours::kPmSamplingProfiler == CUPTI_PROFILER_TYPE_PM_SAMPLING);
static_assert(ours::kTimeInterval == CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL);
static_assert(ours::kKeepOldest == CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_OLDEST);
static_assert(ours::kImageFull == CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL);
static_assert(ours::kHardwareBusy == CUPTI_ERROR_HARDWARE_BUSY &&
              ours::kNotSupported == CUPTI_ERROR_NOT_SUPPORTED);
static_assert(ours::kVirtualizedNotSupported == CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED);
static_assert(ours::kInsufficientPrivileges == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
static_assert(ours::kVirtualizedInsufficientPrivileges ==
              CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES);
static_assert(ours::kCmpNotSupported == CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED);
static_assert(ours::kWslNotSupported == CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED);
static_assert(ours::kMultipleSubscribers == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);

// The records of activities, in the version of these headers.
static_assert(offsetof(ours::KernelRecord, start) == offsetof(CUpti_ActivityKernel9, start) &&
              offsetof(ours::KernelRecord, end) == offsetof(CUpti_ActivityKernel9, end) &&
              offsetof(ours::KernelRecord, stream) == offsetof(CUpti_ActivityKernel9, streamId) &&
              offsetof(ours::KernelRecord, correlation) == offsetof(CUpti_ActivityKernel9, correlationId) &&
              offsetof(ours::KernelRecord, name) == offsetof(CUpti_ActivityKernel9, name));
static_assert(offsetof(ours::CopyRecord, bytes) == offsetof(CUpti_ActivityMemcpy5, bytes) &&
              offsetof(ours::CopyRecord, start) == offsetof(CUpti_ActivityMemcpy5, start) &&
              offsetof(ours::CopyRecord, stream) == offsetof(CUpti_ActivityMemcpy5, streamId) &&
              offsetof(ours::CopyRecord, correlation) == offsetof(CUpti_ActivityMemcpy5, correlationId));
static_assert(offsetof(ours::CallRecord, start) == offsetof(CUpti_ActivityAPI, start) &&
              offsetof(ours::CallRecord, thread) == offsetof(CUpti_ActivityAPI, threadId) &&
              offsetof(ours::CallRecord, correlation) == offsetof(CUpti_ActivityAPI, correlationId));

int main() {
  std::puts("CUPTI's headers agree");
}
