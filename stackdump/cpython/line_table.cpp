#include "stackdump/cpython/line_table.h"

#include <algorithm>

namespace xpurun::stackdump {

namespace {

constexpr int64_t kMaxInstruction = int64_t{1} << 40;  // far beyond the end of any code object

// Line arithmetic wraps: an untrusted table must not cause signed overflow.
int add(int line, int64_t step) {
  return static_cast<int>(static_cast<uint32_t>(line) + static_cast<uint32_t>(step));
}

// <= 3.9, Objects/lnotab_notes.txt: an entry applies from its own address on.
SourceRange from_lnotab(std::string_view table, int line, int64_t instruction) {
  int64_t address = 0;
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    address += static_cast<uint8_t>(table[i]);
    if (address > instruction) {
      break;
    }
    line = add(line, static_cast<int8_t>(table[i + 1]));
  }
  return {.line = line};
}

// 3.10 (PEP 626): ranges of addresses in bytes. A line delta of -128 marks a range without a line; the range
// still advances the address.
SourceRange from_linetable(std::string_view table, int line, int64_t instruction) {
  constexpr int8_t kNoLine = -128;
  const int64_t wanted = std::min(instruction, kMaxInstruction) * 2;
  int64_t end = 0;
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    const auto step = static_cast<int8_t>(table[i + 1]);
    end += static_cast<uint8_t>(table[i]);
    if (step != kNoLine) {
      line = add(line, step);
    }
    if (wanted < end) {
      return step == kNoLine ? SourceRange{} : SourceRange{.line = line};
    }
  }
  return {.line = line};
}

// A cursor over the 3.11 location table.
class Varints {
 public:
  explicit Varints(std::string_view table) : table_(table) {}

  bool at_end() const { return at_ >= table_.size(); }
  uint32_t byte() { return at_end() ? 0 : static_cast<uint8_t>(table_[at_++]); }
  // 6 bits per byte, lowest first; bit 6 means that more follow.
  uint32_t unsigned_value() {
    uint32_t v = 0;
    for (unsigned shift = 0; shift < 32; shift += 6) {
      const uint32_t b = byte();
      v |= (b & 0x3f) << shift;
      if ((b & 0x40) == 0) {
        break;
      }
    }
    return v;
  }
  int32_t signed_value() {
    const uint32_t v = unsigned_value();
    const auto half = static_cast<int32_t>(v >> 1);
    return (v & 1) != 0 ? -half : half;
  }

 private:
  std::string_view table_;
  size_t at_ = 0;
};

// >= 3.11, Objects/locations.md: finds the entry whose range of code units contains the instruction.
SourceRange from_locations(std::string_view table, int line, int64_t instruction) {
  enum Code : uint32_t { kOneLine0 = 10, kOneLine2 = 12, kNoColumns = 13, kLong = 14, kNone = 15 };
  Varints v(table);
  int64_t end = 0;
  while (!v.at_end()) {
    const uint32_t head = v.byte();
    const uint32_t code = head >> 3 & 15;
    end += (head & 7) + 1;
    SourceRange r;
    if (code == kNone) {
      // no location at all
    } else if (code == kLong) {
      line = add(line, v.signed_value());
      r.line = line;
      r.end_line = add(line, v.unsigned_value());
      r.column = static_cast<int>(v.unsigned_value());  // stored 1-based, 0 for none
      r.end_column = static_cast<int>(v.unsigned_value());
    } else if (code == kNoColumns) {
      line = add(line, v.signed_value());
      r.line = r.end_line = line;
    } else if (code >= kOneLine0 && code <= kOneLine2) {
      line = add(line, code - kOneLine0);
      r.line = r.end_line = line;
      r.column = static_cast<int>(v.byte()) + 1;
      r.end_column = static_cast<int>(v.byte()) + 1;
    } else {
      const uint32_t second = v.byte();
      r.line = r.end_line = line;
      r.column = static_cast<int>(code << 3 | second >> 4) + 1;
      r.end_column = r.column + static_cast<int>(second & 15);
    }
    if (instruction < end) {
      return r;
    }
  }
  return {.line = line};
}

}  // namespace

SourceRange source_range(LineFormat format, std::string_view table, int first_line, int64_t instruction) {
  if (instruction < 0) {
    return {.line = std::max(first_line, 0)};
  }
  SourceRange r;
  switch (format) {
    case LineFormat::lnotab:
      r = from_lnotab(table, first_line, instruction);
      break;
    case LineFormat::linetable:
      r = from_linetable(table, first_line, instruction);
      break;
    case LineFormat::locations:
      r = from_locations(table, first_line, instruction);
      break;
  }
  r.line = std::max(r.line, 0);
  r.end_line = std::max(r.end_line, 0);
  r.column = std::max(r.column, 0);
  r.end_column = std::max(r.end_column, 0);
  return r;
}

}  // namespace xpurun::stackdump
