// Finds secrets by shape, regardless of their names: tokens of well-known services, JSON web tokens, PEM
// keys, and long random-looking texts.
#pragma once

#include <string>
#include <string_view>

namespace xpurun::model {

// Replaces each secret by kMask. Keeps hexadecimal file names, because caches of models and builds name
// directories that way.
std::string mask_secret_shapes(std::string_view text);

}  // namespace xpurun::model
