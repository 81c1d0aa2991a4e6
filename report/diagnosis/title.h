// The title of a verdict: who, where, since when, in at most kTitleColumns columns, for page titles, tables,
// annotations and messages.
#pragma once

#include "common/model/verdict.h"

#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

inline constexpr size_t kTitleColumns = 120;

// From the facts of the verdict, in the spoken language; without the kind. A verdict about no place and no
// call is shown by its headline, the middle of which is left out if it is too long.
std::string title_of(const model::Verdict& v);

// Likewise with these words before the place: "a process of rank 0 died of SIGSEGV".
std::string title_with(const model::Verdict& v, const std::string& words);

// The words for the culprit's place as they stand in a title, to be shown as code; empty if there are none.
std::string place_in_title(const model::Verdict& v, std::string_view title);

// The verdict for a terminal: the sentence, or, if the sentence is longer than a title, the title and below
// it what the sentence says.
std::vector<std::string> sentence_lines(const model::Verdict& v);

}  // namespace xpurun::report
