// Exceptions inside a rank that hangs: what ended one of its threads, what it is still handling, or what was
// to end it. Nothing of it is a death; all of it may be why the rank stands where it stands. Pure functions.
#pragma once

#include "report/diagnosis/rule.h"

#include <string>

namespace xpurun::report {

// " while handling ValueError: ... at reader.py:12 (in read)", " after it raised ...", "; its thread loader
// raised ...", or nothing.
std::string exception_clause(const Scene& scene, const RankView& v);

// Where the exception was raised that a culprit of a hang is handling.
void add_handled(const Scene& scene, const model::Verdict& verdict, std::vector<std::string>& out);

}  // namespace xpurun::report
