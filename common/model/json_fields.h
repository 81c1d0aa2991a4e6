// Integers from JSON that anybody may have written: nlohmann's own conversion casts, which is undefined for
// 1e20 and silently another number for 2^32. What is none of T's values throws json::other_error, for the
// caller's catch of json::exception.
#pragma once

#include "common/base/ids.h"

#include <nlohmann/json_fwd.hpp>

#include <concepts>
#include <cstdint>
#include <limits>
#include <string_view>

namespace xpurun::model {

// The value, or a discarded one if it is no JSON or nested deeper than anything of ours: to copy or to print
// a value takes stack for each level.
nlohmann::json parse_json(std::string_view text);
inline constexpr int kDeepestJson = 100;

int64_t to_int64(const nlohmann::json& value, int64_t lowest, int64_t highest);
uint64_t to_uint64(const nlohmann::json& value);

template <std::integral T>
T to_integer(const nlohmann::json& value) {
  if constexpr (std::same_as<T, uint64_t>) {
    return to_uint64(value);
  } else {
    return static_cast<T>(to_int64(value, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
  }
}

// The member of an object; nullptr where it is absent or null.
const nlohmann::json* member(const nlohmann::json& object, const char* key);

template <std::integral T>
T integer(const nlohmann::json& object, const char* key, T fallback) {
  const nlohmann::json* value = member(object, key);
  return value == nullptr ? fallback : to_integer<T>(*value);
}

// How a rank is written: null for a process that is none.
nlohmann::ordered_json rank_or_null(base::Rank rank);

}  // namespace xpurun::model
