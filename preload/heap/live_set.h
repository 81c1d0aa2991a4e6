// The samples in the shared memory (common/wire/heap_segment.h): stacks, and the live set of addresses with a
// small filter before it. Pure: works on any segment. No lock, no allocation, no system call; any thread,
// also within a signal handler.
#pragma once

#include "common/wire/heap_segment.h"

#include <stddef.h>
#include <stdint.h>

namespace xpurun::preload {

inline uint64_t heap_mix(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ b) * 0x9e37'79b9'7f4a'7c15;
  x ^= x >> 32;
  return x * 0xd6e8'feb8'6659'fd93 ^ x >> 29;
}

// Counts per hash how many sampled addresses are alive, so that a free of any other address is one look at
// memory that stays in the cache. A count that has reached the limit stays.
class HeapFilter {
 public:
  static constexpr size_t kBytes = 64 * 1024;

  explicit constexpr HeapFilter(uint8_t* counts = nullptr) : counts_(counts) {}
  bool may_have(uint64_t address) const {
    return __atomic_load_n(&counts_[place(address)], __ATOMIC_RELAXED) != 0;
  }
  void add(uint64_t address);
  void remove(uint64_t address);

 private:
  // Allocations are multiples of 16 bytes apart.
  static size_t place(uint64_t address) { return (address >> 4) * 0x9e37'79b9'7f4a'7c15 >> 48; }
  uint8_t* counts_;
};

struct HeapSample {
  uint64_t bytes = 0;  // that it stands for; 0: there is none
  uint32_t stack = 0;
};

// A sample that finds no room counts as lost.
void add_heap_sample(wire::HeapSegment& shared, HeapFilter& filter, uint64_t address,
                     const HeapSample& sample);
// Call it before the memory is freed: afterwards, another thread may have the address.
HeapSample remove_heap_sample(wire::HeapSegment& shared, HeapFilter& filter, uint64_t address);

// The entry of the key in a table, a new one if need be; null if there is no room. `is_new`: the caller fills
// the entry and then calls publish().
template <typename Entry>
Entry* find_heap_entry(Entry* table, uint32_t size, uint64_t key, bool& is_new) {
  is_new = false;
  for (uint32_t i = 0; i < wire::kHeapProbes; ++i) {
    const uint32_t at = static_cast<uint32_t>((key + i) % size);
    if (at == 0) {
      continue;  // is no entry
    }
    Entry& entry = table[at];
    if (entry.state.load(std::memory_order_acquire) == static_cast<uint32_t>(wire::HeapEntry::free)) {
      uint32_t expected = static_cast<uint32_t>(wire::HeapEntry::free);
      if (entry.state.compare_exchange_strong(expected, static_cast<uint32_t>(wire::HeapEntry::claimed))) {
        entry.key.store(key, std::memory_order_relaxed);
        is_new = true;
        return &entry;
      }
    }
    // Of an entry that another thread is filling, the key may not be there yet: then two have the key.
    if (entry.key.load(std::memory_order_relaxed) == key &&
        entry.state.load(std::memory_order_acquire) == static_cast<uint32_t>(wire::HeapEntry::ready)) {
      return &entry;
    }
  }
  return nullptr;
}
template <typename Entry>
void publish_heap_entry(Entry& entry) {
  entry.state.store(static_cast<uint32_t>(wire::HeapEntry::ready), std::memory_order_release);
}

// The number of the text; 0 if there is no room.
uint32_t put_heap_text(wire::HeapSegment& shared, const char* text, size_t bytes);

}  // namespace xpurun::preload
