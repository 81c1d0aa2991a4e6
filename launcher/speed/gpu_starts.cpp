#include "launcher/speed/gpu_starts.h"

#include "common/base/hash.h"

#include <algorithm>

namespace xpurun::launcher {

std::vector<report::GpuStart> gpu_starts(std::span<const wire::Event> events, const wire::Segment& memory) {
  std::vector<report::GpuStart> out;
  for (const wire::Event& event : events) {
    if (event.op >= wire::kOpSlots) {
      continue;
    }
    const wire::OpKey& key = memory.ops[event.op].key;
    if (!report::tells_start(static_cast<wire::OpClass>(key.op_class),
                             static_cast<wire::Source>(event.source), event.flags)) {
      continue;
    }
    const uint64_t group = key.comm < wire::kCommSlots ? memory.comms[key.comm].identity.load() : 0;
    const auto begin = static_cast<int64_t>(event.begin_ns);
    out.push_back({.called_ns = begin - int64_t{event.delay_us} * 1000,
                   .begin_ns = begin,
                   .kind = base::hash_words(group, {key.api}),
                   .collective = key.op_class == static_cast<uint8_t>(wire::OpClass::collective),
                   .first_of_step = (event.flags & wire::kEventFirstOfStep) != 0,
                   .number = event.sequence});
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.called_ns < b.called_ns; });
  return out;
}

}  // namespace xpurun::launcher
