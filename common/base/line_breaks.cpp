#include "common/base/line_breaks.h"

#include <algorithm>
#include <cstdint>
#include <utf8proc.h>

namespace xpurun::base {

namespace {

struct Character {
  size_t bytes;
  int32_t code_point;  // -1: no UTF-8
};

Character first_of(std::string_view text) {
  constexpr size_t kLongest = 4;
  int32_t code_point = -1;
  const auto bytes =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                       static_cast<utf8proc_ssize_t>(std::min(text.size(), kLongest)), &code_point);
  return bytes > 0 ? Character{static_cast<size_t>(bytes), code_point} : Character{1, -1};
}

bool is_wide(int32_t c) {
  return c >= 0 && utf8proc_charwidth(c) == 2;
}

bool opens(int32_t c) {
  return c >= 0 &&
         (utf8proc_category(c) == UTF8PROC_CATEGORY_PS || utf8proc_category(c) == UTF8PROC_CATEGORY_PI);
}

bool closes(int32_t c) {
  if (c < 0) {
    return false;
  }
  switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:  // comma, full stop, colon, percent sign
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_MN:  // combines with the character before it
    case UTF8PROC_CATEGORY_MC:
      return true;
    default:
      return false;
  }
}

bool may_part(int32_t before, int32_t after) {
  return (is_wide(before) || is_wide(after)) && !opens(before) && !closes(after);
}

}  // namespace

std::vector<std::string_view> unbreakable_parts(std::string_view word) {
  std::vector<std::string_view> out;
  size_t begin = 0;
  int32_t before = -1;
  for (size_t at = 0; at < word.size();) {
    const Character c = first_of(word.substr(at));
    if (at > begin && may_part(before, c.code_point)) {
      out.push_back(word.substr(begin, at - begin));
      begin = at;
    }
    before = c.code_point;
    at += c.bytes;
  }
  out.push_back(word.substr(begin));
  return out;
}

}  // namespace xpurun::base
