// Reads the samples of a rank's memory (common/wire/heap_segment.h), whose content is untrusted. Pure.
#pragma once

#include "common/model/memory/memory_look.h"
#include "common/wire/heap_segment.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace xpurun::launcher {

// What each stack holds. Not an array: xpurun may run with a small stack of its own.
struct HeldByStack : std::vector<int64_t> {
  HeldByStack() : std::vector<int64_t>(wire::kHeapStacks) {}
};

HeldByStack held_by_stack(const wire::HeapSegment& memory);

// The program's line of a return address; nothing: not known yet.
using PlaceOfAddress = std::function<std::optional<std::string>(uint64_t address)>;

// Collects the holders of a rank and of its workers, with their sites, and how much each has grown.
class HeapHolders {
 public:
  explicit HeapHolders(model::MemoryLook& out) : out_(out) {}
  // `grown` is by stack.
  void add(model::MemoryCategory category, const wire::HeapSegment& memory, const HeldByStack& held,
           const HeldByStack& grown, const PlaceOfAddress& place_of);
  // Into the look: the largest.
  void finish();

 private:
  using Key = std::pair<model::MemoryCategory, std::vector<uint32_t>>;

  uint32_t index_of(const model::MemoryPlace& place);

  model::MemoryLook& out_;
  std::map<std::tuple<std::string, int, std::string>, uint32_t> places_;
  std::map<Key, model::MemoryHolder> sums_;  // by site: instructions of one line are one
  int64_t all_ = 0;
};
// Asks for the places of all return addresses, so that they are known when the process has ended.
void ask_for_places(const wire::HeapSegment& memory, const PlaceOfAddress& place_of);

}  // namespace xpurun::launcher
