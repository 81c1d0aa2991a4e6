// Integers from untrusted JSON. nlohmann's own conversion is a cast: undefined for 1e20, silently wrong for
// 2^32. Here a value outside of T's range throws json::other_error, which the caller catches as
// json::exception.
#pragma once

#include "common/base/ids.h"

#include <nlohmann/json_fwd.hpp>

#include <concepts>
#include <cstdint>
#include <limits>
#include <string_view>

namespace xpurun::model {

// The parsed value; discarded if the text is not JSON or is nested deeper than kDeepestJson, because copying
// and printing a value recurse once per level.
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

// The member of an object; nullptr if absent or null.
const nlohmann::json* member(const nlohmann::json& object, const char* key);

template <std::integral T>
T integer(const nlohmann::json& object, const char* key, T fallback) {
  const nlohmann::json* value = member(object, key);
  return value == nullptr ? fallback : to_integer<T>(*value);
}

// A rank in JSON; null for a process without a rank.
nlohmann::ordered_json rank_or_null(base::Rank rank);

}  // namespace xpurun::model
