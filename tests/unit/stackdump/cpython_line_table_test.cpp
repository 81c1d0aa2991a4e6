#include "stackdump/cpython/line_table.h"
#include "stackdump/cpython/value_stack.h"

#include <doctest/doctest.h>

#include <random>
#include <string>

using namespace xpurun::stackdump;

namespace {

std::string bytes(std::initializer_list<int> values) {
  std::string out;
  for (int v : values) {
    out += static_cast<char>(v);
  }
  return out;
}

int line(LineFormat format, const std::string& table, int first, int64_t instruction) {
  return source_range(format, table, first, instruction).line;
}

}  // namespace

TEST_CASE("lnotab: steps apply from their own address on, address steps are unsigned") {
  const std::string table = bytes({0, 1, 6, 1, 200, 2, 4, -3});
  CHECK(line(LineFormat::lnotab, table, 10, 0) == 11);
  CHECK(line(LineFormat::lnotab, table, 10, 4) == 11);
  CHECK(line(LineFormat::lnotab, table, 10, 6) == 12);
  CHECK(line(LineFormat::lnotab, table, 10, 204) == 12);
  CHECK(line(LineFormat::lnotab, table, 10, 206) == 14);
  CHECK(line(LineFormat::lnotab, table, 10, 210) == 11);
  CHECK(line(LineFormat::lnotab, table, 10, -1) == 10);
}

TEST_CASE("3.10: ranges without a line still advance the address") {
  const std::string table = bytes({4, 1, 6, -128, 8, 2, 2, -1});
  CHECK(line(LineFormat::linetable, table, 5, 0) == 6);
  CHECK(line(LineFormat::linetable, table, 5, 1) == 6);
  CHECK(line(LineFormat::linetable, table, 5, 2) == 0);
  CHECK(line(LineFormat::linetable, table, 5, 4) == 0);
  CHECK(line(LineFormat::linetable, table, 5, 5) == 8);
  CHECK(line(LineFormat::linetable, table, 5, 8) == 8);
  CHECK(line(LineFormat::linetable, table, 5, 9) == 7);
}

TEST_CASE("locations: every kind of entry") {
  const auto head = [](int code, int units) { return 0x80 | code << 3 | (units - 1); };
  const std::string table = bytes({
      head(2, 1), 0x53,             // short: column 2*8+5=21, width 3
      head(10, 2), 4, 9,            // same line, columns 4..9
      head(12, 1), 1, 2,            // two lines on
      head(13, 3), 0x02,            // one line on, no columns
      head(15, 1),                  // none
      head(14, 1), 0x03, 2, 5, 65,  // one line back, two lines long, columns 5..65 stored 1-based
      1,                            //   (65 = 1 + 1*64)
  });
  CHECK(source_range(LineFormat::locations, table, 100, 0) == SourceRange{100, 100, 22, 25});
  CHECK(source_range(LineFormat::locations, table, 100, 1) == SourceRange{100, 100, 5, 10});
  CHECK(source_range(LineFormat::locations, table, 100, 2) == SourceRange{100, 100, 5, 10});
  CHECK(source_range(LineFormat::locations, table, 100, 3) == SourceRange{102, 102, 2, 3});
  CHECK(source_range(LineFormat::locations, table, 100, 6) == SourceRange{103, 103, 0, 0});
  CHECK(source_range(LineFormat::locations, table, 100, 7) == SourceRange{});
  CHECK(source_range(LineFormat::locations, table, 100, 8) == SourceRange{102, 104, 5, 65});
  CHECK(source_range(LineFormat::locations, table, 100, -1) == SourceRange{.line = 100});
  CHECK(source_range(LineFormat::locations, "", 7, 3) == SourceRange{.line = 7});
}

TEST_CASE("random tables give an answer, never a negative number") {
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    std::string table(random() % 64, '\0');
    for (char& c : table) {
      c = static_cast<char>(random());
    }
    for (LineFormat format : {LineFormat::lnotab, LineFormat::linetable, LineFormat::locations}) {
      const auto r =
          source_range(format, table, static_cast<int>(random()), static_cast<int64_t>(random() % 300));
      CHECK(r.line >= 0);
      CHECK(r.end_line >= 0);
      CHECK(r.column >= 0);
      CHECK(r.end_column >= 0);
    }
  }
}

TEST_CASE("the value stack that a handler keeps: with a: x = 1; with b: y()") {
  const std::string table =
      bytes({// CPython 3.11
             0x83, 0x05, 0x3a, 0x03, 0x88, 0x0f, 0x23, 0x05, 0x97, 0x0c, 0x3a, 0x03, 0xa3,
             0x04, 0x27, 0x09, 0xa7, 0x03, 0x3a, 0x03, 0xaa, 0x01, 0x27, 0x09, 0xab, 0x03,
             0x3a, 0x03, 0xba, 0x04, 0x3e, 0x07, 0xc1, 0x01, 0x01, 0x3e, 0x07});
  CHECK(kept_depth(table, 2) == 0);
  CHECK(kept_depth(table, 3) == 1);  // __exit__ of a
  CHECK(kept_depth(table, 8) == 2);
  CHECK(kept_depth(table, 22) == 2);
  CHECK(kept_depth(table, 23) == 1);
  CHECK(kept_depth(table, 46) == 0);
  CHECK(kept_depth(table, -1) == 0);
  CHECK(kept_depth("", 3) == 0);
  CHECK(kept_depth(table.substr(0, 2), 3) == 0);  // cut
}
