// Decides by a name whether its value is a secret: variables, options, JSON keys, headers, Python locals.
#pragma once

#include <string_view>

namespace xpurun::model {

// Some words count anywhere in a name (TOKEN, KEY, SECRET, PASSWORD, CREDENTIAL, ...), others only as a whole
// part (PASS, PAT, AUTH, ...), in any case. '-', '_', '.' and camelCase divide parts.
bool is_secret_name(std::string_view name);

}  // namespace xpurun::model
