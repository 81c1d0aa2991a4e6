// Tables for a terminal: columns that find no room are left out. Pure.
#pragma once

#include "report/operations/tables/text_tables.h"

#include <string>

namespace xpurun::launcher {

// Title, table and explanation; no line is wider than `columns`.
std::string table_text(const report::TextTable& table, size_t columns);

}  // namespace xpurun::launcher
