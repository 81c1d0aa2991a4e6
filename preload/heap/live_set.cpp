#include "preload/heap/live_set.h"

#include <string.h>

namespace xpurun::preload {

namespace {

constexpr uint8_t kStays = 255;
constexpr uint64_t kClaimed = 1;
constexpr size_t kMostText = 512;

wire::HeapLive* bucket_of(wire::HeapSegment& shared, uint64_t address) {
  constexpr uint32_t kBuckets = wire::kHeapLive / wire::kHeapBucket;
  return &shared.entries[heap_mix(address, 0) % kBuckets * wire::kHeapBucket];
}

void count(wire::HeapSegment& shared, const HeapSample& sample, int64_t sign) {
  wire::HeapStack& stack = shared.stacks[sample.stack];
  stack.held.fetch_add(sign * static_cast<int64_t>(sample.bytes), std::memory_order_relaxed);
  stack.held_samples.fetch_add(sign, std::memory_order_relaxed);
  shared.live.fetch_add(sign, std::memory_order_relaxed);
}

}  // namespace

void HeapFilter::add(uint64_t address) {
  uint8_t* at = &counts_[place(address)];
  uint8_t now = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (now != kStays && !__atomic_compare_exchange_n(at, &now, static_cast<uint8_t>(now + 1), true,
                                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

void HeapFilter::remove(uint64_t address) {
  uint8_t* at = &counts_[place(address)];
  uint8_t now = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (now != kStays && now != 0 &&
         !__atomic_compare_exchange_n(at, &now, static_cast<uint8_t>(now - 1), true, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED)) {
  }
}

void add_heap_sample(wire::HeapSegment& shared, HeapFilter& filter, uint64_t address,
                     const HeapSample& sample) {
  // Of a block that was freed where this library does not see it.
  if (filter.may_have(address)) {
    remove_heap_sample(shared, filter, address);
  }
  shared.samples.fetch_add(1, std::memory_order_relaxed);
  shared.stacks[sample.stack].allocated.fetch_add(sample.bytes, std::memory_order_relaxed);
  wire::HeapLive* bucket = bucket_of(shared, address);
  for (uint32_t i = 0; i < wire::kHeapBucket; ++i) {
    uint64_t expected = 0;
    if (bucket[i].address.load(std::memory_order_relaxed) == 0 &&
        bucket[i].address.compare_exchange_strong(expected, kClaimed, std::memory_order_acquire)) {
      bucket[i].bytes.store(sample.bytes, std::memory_order_relaxed);
      bucket[i].stack.store(sample.stack, std::memory_order_relaxed);
      count(shared, sample, 1);
      filter.add(address);
      bucket[i].address.store(address, std::memory_order_release);
      return;
    }
  }
  shared.lost.fetch_add(1, std::memory_order_relaxed);
}

HeapSample remove_heap_sample(wire::HeapSegment& shared, HeapFilter& filter, uint64_t address) {
  wire::HeapLive* bucket = bucket_of(shared, address);
  for (uint32_t i = 0; i < wire::kHeapBucket; ++i) {
    uint64_t expected = address;
    if (bucket[i].address.load(std::memory_order_relaxed) == address &&
        bucket[i].address.compare_exchange_strong(expected, kClaimed, std::memory_order_acquire)) {
      HeapSample sample{bucket[i].bytes.load(std::memory_order_relaxed),
                        bucket[i].stack.load(std::memory_order_relaxed) % wire::kHeapStacks};
      bucket[i].address.store(0, std::memory_order_release);
      filter.remove(address);
      count(shared, sample, -1);
      return sample;
    }
  }
  return {};
}

uint32_t put_heap_text(wire::HeapSegment& shared, const char* text, size_t bytes) {
  bytes = bytes < kMostText ? bytes : kMostText;
  uint64_t key = bytes;
  for (size_t i = 0; i < bytes; ++i) {
    key = (key ^ static_cast<unsigned char>(text[i])) * 0x0000'0100'0000'01b3;
  }
  key = heap_mix(key, bytes);
  bool is_new = false;
  wire::HeapText* entry = find_heap_entry(shared.texts, wire::kHeapTexts, key, is_new);
  if (entry == nullptr) {
    return 0;
  }
  if (is_new) {
    // Tested before the addition, so that the counter cannot wrap around once the text is full.
    uint32_t at = wire::kHeapTextBytes;
    if (shared.text_bytes.load(std::memory_order_relaxed) + bytes <= wire::kHeapTextBytes) {
      at = shared.text_bytes.fetch_add(static_cast<uint32_t>(bytes), std::memory_order_relaxed);
    }
    const bool fits = at + bytes <= wire::kHeapTextBytes;
    if (fits) {
      memcpy(shared.text + at, text, bytes);
    }
    entry->offset = fits ? at : 0;
    entry->bytes = fits ? static_cast<uint32_t>(bytes) : 0;
    publish_heap_entry(*entry);
  }
  return static_cast<uint32_t>(entry - shared.texts);
}

}  // namespace xpurun::preload
