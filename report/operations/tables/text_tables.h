// The tables of operations as text, for the terminal and the page. Pure.
#pragma once

#include "common/model/speed/operations.h"
#include "report/operations/tables/text_table.h"

#include <cstddef>
#include <string>
#include <vector>

namespace xpurun::report {

// Tables without rows are left out. `most` rows of each.
std::vector<TextTable> text_tables(const model::OperationTables& operations, size_t most);

// What the tables do not hold: "3 rows with less time are left out. ..."; may be empty.
std::string missing_text(const model::OperationTables& operations);

}  // namespace xpurun::report
