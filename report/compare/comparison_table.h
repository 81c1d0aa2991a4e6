// A comparison as a table, for the terminal and the page. Pure.
#pragma once

#include "common/model/speed/comparison.h"
#include "report/operations/tables/text_tables.h"

namespace xpurun::report {

// The step, then the metrics that differ, then the others; `most` rows.
TextTable comparison_table(const model::Comparison& comparison, size_t most);
// "Mann-Whitney on the medians of up to 32 blocks of steps or calls, ..."
std::string about_test(const model::Comparison& comparison);
// "runs/1, ranks 0-3, 400 steps of 188 ms; became 20 % slower at step 100"
std::string side_words(const model::ComparedSide& side);

}  // namespace xpurun::report
