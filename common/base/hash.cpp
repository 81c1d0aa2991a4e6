#include "common/base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace xpurun::base {

uint64_t hash_bytes(std::span<const std::byte> bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

uint64_t hash_text(std::string_view text) {
  return hash_bytes(std::as_bytes(std::span(text)));
}

uint64_t hash_words(uint64_t seed, std::initializer_list<uint64_t> words) {
  return hash_bytes(std::as_bytes(std::span(words.begin(), words.size())), seed);
}

}  // namespace xpurun::base
