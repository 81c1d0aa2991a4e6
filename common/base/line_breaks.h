// The places inside a word without blanks where a line may end: between Chinese, Japanese and Korean
// characters, but not before a closing and not after an opening mark (UAX #14, reduced to what a terminal
// needs).
#pragma once

#include <string_view>
#include <vector>

namespace xpurun::base {

// The word in parts that stay whole; a line may end between two of them.
std::vector<std::string_view> unbreakable_parts(std::string_view word);

}  // namespace xpurun::base
