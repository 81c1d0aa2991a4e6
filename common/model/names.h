// Names of enums: one table per enum, for both directions. Each enum specialises kNames with one name per
// value. The values count up from 0, and the names have the same order.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <type_traits>

namespace xpurun::model {

template <typename E>
inline constexpr std::nullptr_t kNames = nullptr;

template <typename E>
concept Named = std::is_enum_v<E> && !std::is_same_v<decltype(kNames<E>), const std::nullptr_t>;

template <Named E>
constexpr std::string_view name_of(E value) {
  return kNames<E>[static_cast<size_t>(value)];
}

template <Named E>
constexpr std::optional<E> from_name(std::string_view name) {
  for (size_t i = 0; i < kNames<E>.size(); ++i) {
    if (kNames<E>[i] == name) {
      return static_cast<E>(i);
    }
  }
  return std::nullopt;
}

}  // namespace xpurun::model
