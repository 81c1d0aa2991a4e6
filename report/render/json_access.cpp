#include "report/render/json_access.h"

#include "common/base/strings.h"

#include <nlohmann/json.hpp>

namespace xpurun::report {

using nlohmann::json;

std::string text_of(const json& j, const char* key) {
  const auto it = j.is_object() ? j.find(key) : j.end();
  return j.is_object() && it != j.end() && it->is_string() ? base::sanitize(it->get_ref<const std::string&>())
                                                           : std::string();
}

const json& list_of(const json& j, const char* key) {
  static const json kEmpty = json::array();
  const auto it = j.is_object() ? j.find(key) : j.end();
  return j.is_object() && it != j.end() && it->is_array() ? *it : kEmpty;
}

const json& object_of(const json& j, const char* key) {
  static const json kEmpty = json::object();
  const auto it = j.is_object() ? j.find(key) : j.end();
  return j.is_object() && it != j.end() && it->is_object() ? *it : kEmpty;
}

int64_t number_of(const json& j, const char* key, int64_t fallback) {
  const auto it = j.is_object() ? j.find(key) : j.end();
  return j.is_object() && it != j.end() && it->is_number_integer() ? it->get<int64_t>() : fallback;
}

}  // namespace xpurun::report
