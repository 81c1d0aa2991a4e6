// Decodes line tables for tests that compare with an interpreter's own answer. Reads lines
// "<format> <first line> <instructions> <table in hex or ->" and prints for each instruction
// "line end_line column end_column;", one line of output for each line of input.
#include "stackdump/cpython/line_table.h"

#include <iostream>
#include <string>

using namespace xpurun::stackdump;

int main() {
  std::ios::sync_with_stdio(false);
  std::string format;
  std::string hex;
  int first = 0;
  long count = 0;
  while (std::cin >> format >> first >> count >> hex) {
    const LineFormat f = format == "lnotab"      ? LineFormat::lnotab
                         : format == "linetable" ? LineFormat::linetable
                                                 : LineFormat::locations;
    std::string table;
    for (size_t i = 0; hex != "-" && i + 1 < hex.size(); i += 2) {
      table += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    }
    for (long i = 0; i < count; ++i) {
      const auto r = source_range(f, table, first, f == LineFormat::lnotab ? i * 2 : i);
      std::cout << r.line << ' ' << r.end_line << ' ' << r.column << ' ' << r.end_column << ';';
    }
    std::cout << '\n';
  }
  return 0;
}
