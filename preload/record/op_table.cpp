#include "preload/record/op_table.h"

#include "preload/core/state.h"

#include <string.h>

namespace xpurun::preload {

namespace {

constexpr uint32_t kProbes = 64;
// The first entries, one per OpClass, collect operations that find no room in the table.
constexpr uint32_t kFirst = 8;

constexpr uint32_t kWords = sizeof(wire::OpKey) / sizeof(uint64_t);

struct Words {
  explicit Words(const wire::OpKey& key) { memcpy(at, &key, sizeof(key)); }
  uint64_t at[kWords];
};

// A sum of independent products, which the CPU computes in parallel.
uint32_t hash_of(const Words& key) {
  uint64_t h = 0;
  uint64_t odd = 0x9e3779b97f4a7c15;
  for (const uint64_t word : key.at) {
    h += (word ^ word >> 32) * odd;
    odd *= 0xd1342543de82ef95;
  }
  h = (h ^ h >> 29) * 0xff51afd7ed558ccd;
  return static_cast<uint32_t>(h >> 32);
}

bool are_equal(const Words& a, const Words& b) {
  uint64_t differing = 0;
  for (uint32_t i = 0; i < kWords; ++i) {
    differing |= a.at[i] ^ b.at[i];
  }
  return differing == 0;
}

bool is_state(const wire::OpEntry& entry, wire::SlotState state) {
  return entry.state.load(std::memory_order_acquire) == static_cast<uint32_t>(state);
}

bool enter(wire::OpEntry& entry, const wire::OpKey& key, uint32_t hash) {
  uint32_t expected = static_cast<uint32_t>(wire::SlotState::free);
  if (!entry.state.compare_exchange_strong(expected, static_cast<uint32_t>(wire::SlotState::writing))) {
    return false;
  }
  entry.hash = hash;
  entry.key = key;
  entry.state.store(static_cast<uint32_t>(wire::SlotState::ready), std::memory_order_release);
  return true;
}

}  // namespace

uint32_t find_op(wire::Segment& segment, const wire::OpKey& key) {
  const Words words(key);
  const uint32_t hash = hash_of(words);
  for (uint32_t i = 0; i < kProbes; ++i) {
    const uint32_t index = kFirst + (hash + i) % (wire::kOpSlots - kFirst);
    wire::OpEntry& entry = segment.ops[index];
    if (is_state(entry, wire::SlotState::ready)) {
      if (entry.hash == hash && are_equal(Words(entry.key), words)) {
        return index;
      }
    } else if (is_state(entry, wire::SlotState::free) && enter(entry, key, hash)) {
      return index;
    }
  }
  const uint32_t other = key.op_class % kFirst;
  add(segment.header.health.table_full, 1);
  wire::OpKey rest{};
  rest.op_class = key.op_class;
  rest.flags = wire::kOpOther;
  rest.comm = wire::kNoComm;
  rest.peer = -1;
  enter(segment.ops[other], rest, 0);
  return other;
}

namespace {

struct alignas(64) KnownKey {
  uint64_t words[kWords];
};

// A model's step has few different calls in sequence.
constexpr uint32_t kKnownBits = 6;
constexpr uint32_t kKnown = 1U << kKnownBits;
__thread KnownKey t_known[kKnown];
__thread uint32_t t_known_op[kKnown];  // index + 1; 0: no key here

// m, n and k distinguish most of a thread's calls.
uint32_t place_of(const Words& key) {
  const uint64_t sum = key.at[2] * 0x9e3779b97f4a7c15 + key.at[3] * 0xd1342543de82ef95 +
                       (key.at[4] + key.at[0]) * 0xff51afd7ed558ccd;
  return static_cast<uint32_t>(sum >> (64 - kKnownBits));
}

}  // namespace

uint32_t find_op_again(const wire::OpKey& key) {
  const Words words(key);
  const uint32_t place = place_of(words);
  KnownKey& known = t_known[place];
  uint64_t differing = 0;
  for (uint32_t i = 0; i < kWords; ++i) {
    differing |= known.words[i] ^ words.at[i];
  }
  if (differing != 0 || t_known_op[place] == 0) {
    const uint32_t found = find_op(*segment(), key);
    if (found < kFirst) {
      return found;  // the table is full; each such call is counted in Health
    }
    memcpy(known.words, words.at, sizeof(known.words));
    t_known_op[place] = found + 1;
  }
  return t_known_op[place] - 1;
}

}  // namespace xpurun::preload
