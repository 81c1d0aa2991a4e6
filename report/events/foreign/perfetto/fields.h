// Field numbers of Perfetto's trace, as in protos/perfetto/trace of github.com/google/perfetto.
#pragma once

#include <cstdint>

namespace xpurun::report::perfetto {

namespace trace {
inline constexpr int kPacket = 1;
}
namespace packet {
inline constexpr int kChromeEvents = 5;  // its metadata are texts with names, which trace processors list
inline constexpr int kClockSnapshot = 6;
inline constexpr int kTimestamp = 8;
inline constexpr int kSequenceId = 10;
inline constexpr int kTrackEvent = 11;
inline constexpr int kInternedData = 12;
inline constexpr int kSequenceFlags = 13;
inline constexpr int kTrackDescriptor = 60;
inline constexpr int kClock = 58;     // of the packet's time
inline constexpr int kDefaults = 59;  // of the sequence
inline constexpr int kFirstOnSequence = 87;
inline constexpr uint32_t kStateCleared = 1;
inline constexpr uint32_t kNeedsState = 2;
}  // namespace packet
namespace clock {
inline constexpr int kClocks = 1;  // of a snapshot
inline constexpr int kId = 1;
inline constexpr int kTimestamp = 2;
inline constexpr uint32_t kRealtime = 1;
inline constexpr uint32_t kBoottime = 6;      // the clock of packets without one
inline constexpr uint32_t kFirstOfFile = 64;  // from here on, the file itself says what a clock is
}  // namespace clock
namespace defaults {
inline constexpr int kClock = 58;
inline constexpr int kTrackEvent = 11;
inline constexpr int kTrack = 11;
}  // namespace defaults
namespace metadata {
inline constexpr int kMetadata = 2;
inline constexpr int kName = 1;
inline constexpr int kString = 2;
}  // namespace metadata
namespace event {
inline constexpr int kCategoryIids = 3;
inline constexpr int kAnnotations = 4;
inline constexpr int kType = 9;
inline constexpr int kNameIid = 10;
inline constexpr int kTrack = 11;
inline constexpr int kCategory = 22;
inline constexpr int kName = 23;
inline constexpr int kIntValue = 30;
inline constexpr int kFlows = 47;
inline constexpr int kCorrelation = 52;
inline constexpr int kSliceBegin = 1;
inline constexpr int kSliceEnd = 2;
inline constexpr int kInstant = 3;
inline constexpr int kCounter = 4;
inline constexpr int kDoubleValue = 44;
}  // namespace event
namespace annotation {
inline constexpr int kNameIid = 1;
inline constexpr int kBool = 2;
inline constexpr int kUint = 3;
inline constexpr int kInt = 4;
inline constexpr int kDouble = 5;
inline constexpr int kString = 6;
inline constexpr int kName = 10;
inline constexpr int kStringIid = 17;
}  // namespace annotation
namespace interned {
inline constexpr int kCategories = 1;
inline constexpr int kNames = 2;
inline constexpr int kAnnotationNames = 3;
inline constexpr int kAnnotationStrings = 29;
}  // namespace interned
namespace descriptor {
inline constexpr int kUuid = 1;
inline constexpr int kName = 2;
inline constexpr int kProcess = 3;
inline constexpr int kParent = 5;
inline constexpr int kCounter = 8;
inline constexpr int kUnitName = 6;
inline constexpr int kChildOrdering = 11;
inline constexpr int kSiblingRank = 12;
inline constexpr int kExplicit = 3;
inline constexpr int kThread = 4;
inline constexpr int kThreadId = 2;
inline constexpr int kThreadName = 5;
inline constexpr int kPid = 1;
inline constexpr int kProcessName = 6;
inline constexpr int kProcessLabels = 8;
inline constexpr int kSortIndex = 3;
}  // namespace descriptor

}  // namespace xpurun::report::perfetto
