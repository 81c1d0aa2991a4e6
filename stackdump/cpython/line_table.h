// From an instruction to its place in the source, for each of CPython's three table formats. Pure functions
// over bytes of unknown origin: any input gives an answer, none reads outside.
#pragma once

#include "stackdump/cpython/offsets.h"

#include <cstdint>
#include <string_view>

namespace xpurun::stackdump {

// 1-based; 0 unknown. Columns count UTF-8 bytes; end_column is the one behind the range.
struct SourceRange {
  int line = 0;
  int end_line = 0;
  int column = 0;
  int end_column = 0;
  bool operator==(const SourceRange&) const = default;
};

// `instruction`: index of the code unit (two bytes) for locations and linetable, byte offset for lnotab.
// Negative means that the code has not begun: its first line.
SourceRange source_range(LineFormat format, std::string_view table, int first_line, int64_t instruction);

}  // namespace xpurun::stackdump
