// A table of text, for the terminal and the page. Plain data.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace xpurun::report {

inline constexpr int kNeverLeftOut = 9;  // weight of a column

struct TextColumn {
  std::string name;
  bool number = true;  // one unit for the whole column, so that a script can sort
  int weight = 0;      // where there is no room for all columns, the lowest go first
};

struct TextTable {
  std::string id;  // "matmuls"
  std::string title;
  std::string about;  // what the numbers rest on
  std::vector<TextColumn> columns;
  std::vector<std::vector<std::string>> rows;  // at most as many as wanted
  size_t all_rows = 0;
};

// Three or more significant digits: "1234", "12.3", "0.0042"; empty for a negative number.
std::string short_number(double value);
// In milliseconds, and in per cent of 1; empty for a negative number.
std::string ms_cell(double seconds);
std::string percent_cell(double share);

}  // namespace xpurun::report
