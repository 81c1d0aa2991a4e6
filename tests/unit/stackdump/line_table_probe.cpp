// Decodes the line tables of a file and compares the result with the answers of the interpreter that wrote
// it. The file holds one record per code object: int32 format (0 lnotab, 1 linetable, 2 locations), first
// line, number of instructions, size of the table; the table; per instruction int32 line, end line, column,
// end column. Prints the numbers of instructions and of wrong answers, and the first wrong answers.
#include "stackdump/cpython/line_table.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

using namespace xpurun::stackdump;

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: line_table_probe FILE\n";
    return 2;
  }
  std::ifstream in(argv[1], std::ios::binary);
  const std::string data{std::istreambuf_iterator<char>(in), {}};
  size_t at = 0;
  const auto numbers = [&] {
    std::array<int32_t, 4> out{};
    if (data.size() - at >= sizeof out) {
      std::memcpy(out.data(), data.data() + at, sizeof out);
    }
    at += sizeof out;
    return out;
  };
  size_t instructions = 0;
  size_t wrong = 0;
  while (at < data.size()) {
    const auto [format, first, count, size] = numbers();
    if (size < 0 || data.size() - at < static_cast<size_t>(size)) {
      std::cerr << "line_table_probe: the file ends too early\n";
      return 2;
    }
    const std::string_view table(data.data() + at, static_cast<size_t>(size));
    at += table.size();
    for (int32_t i = 0; i < count; ++i) {
      const auto want = numbers();
      const auto r = source_range(static_cast<LineFormat>(format), table, first, format == 0 ? i * 2 : i);
      ++instructions;
      if (want != std::array<int32_t, 4>{r.line, r.end_line, r.column, r.end_column} && ++wrong <= 5) {
        std::cerr << "instruction " << i << " of a code object at line " << first << ": want " << want[0]
                  << '-' << want[1] << ' ' << want[2] << '-' << want[3] << ", have " << r.line << '-'
                  << r.end_line << ' ' << r.column << '-' << r.end_column << '\n';
      }
    }
  }
  if (at != data.size()) {
    std::cerr << "line_table_probe: the file ends too early\n";
    return 2;
  }
  std::cout << instructions << ' ' << wrong << '\n';
  return 0;
}
