// The tables of `xpurun query`.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace xpurun::report {

// Neighbours of one table that are explained together. The rows of a table are in the order of its columns.
struct TableColumns {
  std::string_view table;
  std::string_view typed;  // "rank INTEGER, pid INTEGER"
  std::string_view about;

  std::string names() const;  // "rank, pid"
};
std::span<const TableColumns> table_columns();

// The statements that make the tables.
std::string create_tables();

}  // namespace xpurun::report
