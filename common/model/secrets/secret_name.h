// Tells from a name whether its value is a secret: variables, options, keys of JSON, headers, Python locals.
#pragma once

#include <string_view>

namespace xpurun::model {

// Words that are telling anywhere (TOKEN, KEY, SECRET, PASSWORD, CREDENTIAL, ...) and words that are telling
// as a part of their own (PASS, PAT, AUTH, ...), in any case; '-', '_', '.' and camelCase divide parts.
bool is_secret_name(std::string_view name);

}  // namespace xpurun::model
