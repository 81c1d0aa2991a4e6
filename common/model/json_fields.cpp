#include "common/model/json_fields.h"

#include <nlohmann/json.hpp>

#include <string>
#include <utility>

namespace xpurun::model {

using nlohmann::json;

namespace {

[[noreturn]] void refuse(const json& value) {
  const std::string what = value.is_number() ? value.dump() : value.type_name();
  throw json::other_error::create(501, "not an integer in range: " + what, &value);
}

}  // namespace

json parse_json(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      quoted = !quoted;
    } else if (quoted) {
      i += c == '\\' ? 1 : 0;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepestJson) {
        return json(json::value_t::discarded);
      }
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return json::parse(text, nullptr, /*allow_exceptions=*/false);
}

int64_t to_int64(const json& value, int64_t lowest, int64_t highest) {
  // nlohmann stores every non-negative integer as unsigned, unless a program has set a signed value.
  const bool fits =
      value.is_number_unsigned() ? std::in_range<int64_t>(value.get<uint64_t>()) : value.is_number_integer();
  const int64_t n = fits ? value.get<int64_t>() : 0;
  if (!fits || n < lowest || n > highest) {
    refuse(value);
  }
  return n;
}

uint64_t to_uint64(const json& value) {
  if (!value.is_number_integer() || (!value.is_number_unsigned() && value.get<int64_t>() < 0)) {
    refuse(value);
  }
  return value.get<uint64_t>();
}

const json* member(const json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

nlohmann::ordered_json rank_or_null(base::Rank rank) {
  return rank == base::kNoRank ? nlohmann::ordered_json() : nlohmann::ordered_json(rank);
}

}  // namespace xpurun::model
