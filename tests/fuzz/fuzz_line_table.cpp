// Input: one byte of format, four of the first line, the rest is the table. Every instruction near the
// table's own size is looked up; no answer may have negative numbers.
#include "stackdump/cpython/line_table.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

using namespace xpurun::stackdump;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 5) {
    return 0;
  }
  const auto format = static_cast<LineFormat>(data[0] % 3);
  int32_t first = 0;
  std::memcpy(&first, data + 1, 4);
  const std::string_view table(reinterpret_cast<const char*>(data + 5), size - 5);
  const auto last = static_cast<int64_t>(std::min<size_t>(table.size() * 8, 64));
  for (int64_t i = -1; i <= last + 2; ++i) {
    const int64_t instruction = i == last + 1 ? INT64_MAX : i == last + 2 ? INT64_MAX / 2 : i;
    const SourceRange r = source_range(format, table, first, instruction);
    if (r.line < 0 || r.end_line < 0 || r.column < 0 || r.end_column < 0) {
      std::abort();
    }
  }
  return 0;
}
