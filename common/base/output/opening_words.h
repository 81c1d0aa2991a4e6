// The beginning of a long message.
#pragma once

#include <string>
#include <string_view>

namespace xpurun::base {

// Shortens a message to at most `columns`: the first sentences, without the last full stop; where not even
// the first fits, its first words and " …".
std::string opening_words(std::string_view text, size_t columns);

}  // namespace xpurun::base
