// Tags of span files, for the encoder and the reader. docs/spans.md is the specification.
#pragma once

#include <cstdint>

namespace xpurun::model::records {

// The first byte of a record. Values below kNotASpan are spans; the low four bits are the stage, then:
inline constexpr uint8_t kStageMask = 15;
inline constexpr uint8_t kSameThread = 1 << 4;  // same thread as the previous span
inline constexpr uint8_t kHasCpu = 1 << 5;      // the CPU time is known
inline constexpr uint8_t kHasGroup = 1 << 6;    // group, sequence and bytes follow
inline constexpr uint8_t kNotASpan = 1 << 7;
inline constexpr uint8_t kName = 0x80;
inline constexpr uint8_t kLoad = 0x81;
inline constexpr uint8_t kLostSpans = 0x82;
inline constexpr uint8_t kShortCalls = 0x83;
inline constexpr uint8_t kInferredName = 0x84;  // the spans of a name are inferred
inline constexpr uint8_t kLostCpu = 0x85;       // of the load before
inline constexpr uint8_t kMemory = 0x86;        // of the load before
inline constexpr uint8_t kGpuMemory = 0x87;     // of the load before
inline constexpr uint8_t kBackend = 0x88;       // of torch's default process group

// Times and durations below this limit can be added without overflow.
inline constexpr uint64_t kSpanTimeLimit = uint64_t{1} << 62;

}  // namespace xpurun::model::records
