// XXH3 hashes for in-memory tables, fingerprints and checksums of cache files. Not for secrets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

namespace xpurun::base {

uint64_t hash_bytes(std::span<const std::byte> bytes, uint64_t seed = 0);
uint64_t hash_text(std::string_view text);
// Hash of the numbers in this order. `seed` may be the hash of the numbers before them.
uint64_t hash_words(uint64_t seed, std::initializer_list<uint64_t> words);

}  // namespace xpurun::base
