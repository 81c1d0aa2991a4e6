// What the threads and processes that a rank has started tell of its hang. Pure functions.
#pragma once

#include "report/diagnosis/rule.h"

#include <string>

namespace xpurun::report {

// A still rank whose helpers move a little: they may work, or be a heartbeat that says nothing.
bool helpers_stir(const RankView& v);

// Where the process stands for which this rank waits: "; its dataloader worker pid 812 has been in
// read_sample (data.py:31) for 300 s". Empty if the rank waits for no process of its own or nothing is known
// of it.
std::string helper_clause(const Scene& scene, const RankView& v);

// Lowers what the rules have found to a suspicion where everything that stands still may be well: ranks
// without peers that wait for something outside the job (unless --hang-idle), and ranks whose helpers stir
// (until the stall has outlasted --busy-timeouts).
void doubt_idle(const Scene& scene, model::Verdict& verdict);

}  // namespace xpurun::report
