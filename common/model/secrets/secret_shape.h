// Finds secrets by their own look, whatever their name: tokens of well-known services, JSON web tokens, PEM
// keys, and long texts that look drawn at random.
#pragma once

#include <string>
#include <string_view>

namespace xpurun::model {

// The text with each of them replaced by kMask. Names of files that are hexadecimal stay: caches of models
// and of builds name directories so.
std::string mask_secret_shapes(std::string_view text);

}  // namespace xpurun::model
