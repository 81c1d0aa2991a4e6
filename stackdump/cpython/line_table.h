// Maps an instruction to its source position, for each of CPython's three table formats. Pure functions over
// untrusted bytes: every input gives an answer, and no input causes an out-of-bounds read.
#pragma once

#include "stackdump/cpython/offsets/offsets.h"

#include <cstdint>
#include <string_view>

namespace xpurun::stackdump {

// 1-based; 0 means unknown. Columns count UTF-8 bytes; end_column is the first column after the range.
struct SourceRange {
  int line = 0;
  int end_line = 0;
  int column = 0;
  int end_column = 0;
  bool operator==(const SourceRange&) const = default;
};

// `instruction`: index of the code unit (two bytes) for locations and linetable, byte offset for lnotab. A
// negative value means that the code has not begun and gives its first line.
SourceRange source_range(LineFormat format, std::string_view table, int first_line, int64_t instruction);

}  // namespace xpurun::stackdump
