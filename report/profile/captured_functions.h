// The share of functions in the time of each rank, and the ranks that stand out. Pure.
#pragma once

#include "common/model/speed/capture_report.h"
#include "report/profile/profile.h"
#include "report/speed/roles/rank_roles.h"

#include <string_view>

namespace xpurun::report {

// A rank stands out in a function if its share exceeds the others' median by 5 % of the time, by five
// standard errors (three neighbouring samples count as one) and by four robust standard deviations of the
// others, and fewer than half of the ranks do so; of two ranks, one may. Functions below 1 % everywhere are
// left out. Only ranks of the same role are compared. After mark_idle(), each function also has the share of
// the time in which the function was running and the rank's GPU had no work: the part of the critical path.
model::CaptureReport captured_functions(const Profile& profile, const RankRoles& roles = {});

// "train.py:40 (collate)"; "collate (train.py)" without a line.
std::string place_of(const model::CapturedFunction& f);
// ", when the job had become slower"; empty if somebody asked for the capture.
std::string_view capture_reason(std::string_view reason);
// "spends 43 % of its time in load (data.py:12), the other ranks 2 %"; without the subject.
std::string excess_words(const model::CapturedFunction& f);
// "rank 2 spends 40 % of its time in ..."
std::string ranks_excess(const model::CapturedFunction& f);
// CaptureReport::sentence
std::string capture_sentence(const model::CaptureReport& capture);
// The function of the program in which `ranks` spend more of their time than the others; nullptr if none.
const model::CapturedFunction* blamed_function(const model::CaptureReport& capture,
                                               const model::RankSet& ranks);

}  // namespace xpurun::report
