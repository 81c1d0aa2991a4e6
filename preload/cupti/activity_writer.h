// ActivityWriter: turns CUPTI's records into those of the CaptureSegment. One thread at a time.
#pragma once

#include "common/wire/capture.h"
#include "preload/cupti/cupti_abi.h"

namespace xpurun::preload::cupti {

class ActivityWriter {
 public:
  // Both outlive this object. `to_host_ns` is added to CUPTI's times to get CLOCK_MONOTONIC. Calls of the
  // thread `poller` are left out.
  void begin(wire::CaptureSegment& memory, const Functions& cupti, int64_t to_host_ns, int32_t poller);

  void take(const void* record);
  bool is_full() const { return records_ >= wire::kCaptureRecords; }

 private:
  static constexpr uint32_t kCalls = 2048;  // numbers of callbacks
  static constexpr uint32_t kHashSlots = 2048;
  static_assert(kHashSlots > 2 * wire::kCaptureNames);

  void put(wire::CapturedRecord record, uint64_t start, uint64_t end);
  void take_kernel(const KernelRecord& record);
  void take_copy(const CopyRecord& record);
  void take_set(const SetRecord& record);
  void take_call(const CallRecord& record);
  void take_overhead(const OverheadRecord& record);
  uint32_t name_of(const char* text, size_t length);
  uint32_t name_of_call(uint32_t callback);

  wire::CaptureSegment* memory_ = nullptr;
  const Functions* cupti_ = nullptr;
  int64_t to_host_ns_ = 0;
  int32_t poller_ = 0;
  uint64_t records_ = 0;
  uint32_t names_ = 0;
  uint32_t text_ = 0;
  uint16_t slots_[kHashSlots] = {};  // index of the name + 1
  uint16_t calls_[kCalls] = {};      // index of the name + 1
};

}  // namespace xpurun::preload::cupti
