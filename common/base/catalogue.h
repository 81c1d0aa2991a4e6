// The translations, made from po/*.po by po/compile.py. Immutable data; any thread.
#pragma once

#include <span>
#include <string_view>

namespace xpurun::base {

struct Translation {
  std::string_view english;
  std::string_view text;
};

// Sorted by the bytes of the English text.
std::span<const Translation> chinese_catalogue();

}  // namespace xpurun::base
