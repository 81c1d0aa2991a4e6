// Reading members of JSON that may be damaged: a missing key, or a value of another type than expected,
// counts as empty. Text is made safe to print. For .cpp files only.
#pragma once

#include "common/base/strings.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace xpurun::report {

inline std::string text_of(const nlohmann::json& j, const char* key) {
  const auto it = j.is_object() ? j.find(key) : j.end();
  return j.is_object() && it != j.end() && it->is_string() ? base::sanitize(it->get_ref<const std::string&>())
                                                           : std::string();
}

inline const nlohmann::json& list_of(const nlohmann::json& j, const char* key) {
  static const nlohmann::json kEmpty = nlohmann::json::array();
  const auto it = j.is_object() ? j.find(key) : j.end();
  return j.is_object() && it != j.end() && it->is_array() ? *it : kEmpty;
}

inline const nlohmann::json& object_of(const nlohmann::json& j, const char* key) {
  static const nlohmann::json kEmpty = nlohmann::json::object();
  const auto it = j.is_object() ? j.find(key) : j.end();
  return j.is_object() && it != j.end() && it->is_object() ? *it : kEmpty;
}

inline int64_t number_of(const nlohmann::json& j, const char* key, int64_t fallback) {
  const auto it = j.is_object() ? j.find(key) : j.end();
  return j.is_object() && it != j.end() && it->is_number_integer() ? it->get<int64_t>() : fallback;
}

}  // namespace xpurun::report
