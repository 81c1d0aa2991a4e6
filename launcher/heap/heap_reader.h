// Reads the samples of a rank's memory (common/wire/heap_segment.h), whose content is untrusted. Pure.
#pragma once

#include "common/model/memory/memory_look.h"
#include "common/wire/heap_segment.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace xpurun::launcher {

// What each stack holds. Not an array: xpurun may run with a small stack of its own.
struct HeldByStack : std::vector<int64_t> {
  HeldByStack() : std::vector<int64_t>(wire::kHeapStacks) {}
};

HeldByStack held_by_stack(const wire::HeapSegment& memory);

// The program's line of a return address; nothing: not known yet.
using PlaceOfAddress = std::function<std::optional<std::string>(uint64_t address)>;

// The holders with their sites, and how much each has grown. `grown` is by stack.
void add_heap_holders(const wire::HeapSegment& memory, const HeldByStack& held, const HeldByStack& grown,
                      const PlaceOfAddress& place_of, model::MemoryLook& out);
// Asks for the places of all return addresses, so that they are known when the process has ended.
void ask_for_places(const wire::HeapSegment& memory, const PlaceOfAddress& place_of);

}  // namespace xpurun::launcher
