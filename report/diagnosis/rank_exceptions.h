// Exceptions inside a rank that hangs: an exception that ended one of its threads, is still being handled, or
// was about to end the rank. None of them is a death, but each may explain the rank's position. Pure
// functions.
#pragma once

#include "report/diagnosis/rule.h"

#include <string>

namespace xpurun::report {

// " while handling ValueError: ... at reader.py:12 (in read)", " after it raised ...", "; its thread loader
// raised ...", or empty.
std::string exception_clause(const Scene& scene, const RankView& v);

// " while handling ValueError: bad shard 7 at data.py:21 (in load)": of a rank that works, perhaps in a loop
// that catches the exception again and again; "; its loop has caught ..."; empty otherwise.
std::string caught_clause(const Scene& scene, const RankView& v);

// "ValueError": of the exception that the rank handles where it stands; empty if there is none.
std::string handled_type(const RankView& v);

// "ValueError": of the exception that a loop of the rank catches and hides; empty if none is known.
std::string hidden_type(const Scene& scene, const RankView& v);

// The exception that ended a process which is known by it alone: the process was gone before it was seen.
// Before the dump; null: none.
const model::PythonException* unseen_exception(const Scene& scene);

// Adds the origin of the exception that a culprit of a hang is handling.
void add_handled(const Scene& scene, const model::Verdict& verdict, std::vector<std::string>& out);

// "called sys.exit(0) at train.py:12 (in main)"; of a process that exited without such a call, "exited with
// status 3, last seen in main (train.py:12)" if its last position is known. Empty for any other end.
std::string exit_call_words(const Ending& e);

// How a process of multiprocessing has ended, as its parent has seen it: with the call by which the process
// ended itself, and its last position.
std::string helper_end_words(const Scene& scene, const model::HelperDeath& death);

}  // namespace xpurun::report
