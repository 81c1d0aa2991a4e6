// Reading members of JSON that may be damaged: a missing key, or a value of another type than expected,
// counts as empty. Text is made safe to print. References are valid as long as the argument.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>

namespace xpurun::report {

std::string text_of(const nlohmann::json& j, const char* key);
const nlohmann::json& list_of(const nlohmann::json& j, const char* key);
const nlohmann::json& object_of(const nlohmann::json& j, const char* key);
int64_t number_of(const nlohmann::json& j, const char* key, int64_t fallback);

}  // namespace xpurun::report
