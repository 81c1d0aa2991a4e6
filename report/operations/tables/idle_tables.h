// The idle time of the GPUs as tables of text, for the terminal and the page. Pure.
#pragma once

#include "common/model/speed/operations.h"
#include "report/operations/tables/text_table.h"

namespace xpurun::report {

// Of the newest trace or capture with numbers: time by cause, queue length; the longest gaps.
std::vector<TextTable> idle_tables(const model::OperationTables& operations, size_t most);

// Why there are no such tables, although GPUs were used; may be empty.
std::string missing_idle_text(const model::OperationTables& operations);

}  // namespace xpurun::report
