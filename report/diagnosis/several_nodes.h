// What is to be said of a job only where the runs of several nodes were put together: nodes without data,
// clocks that agree only so far, and on which host a culprit is. Nothing for a job of one node.
#pragma once

#include "report/diagnosis/rule.h"

#include <string>
#include <vector>

namespace xpurun::report {

// Failures on other nodes of which cannot be said whether they came before or after `root`, because the
// clocks of the nodes agree only to some uncertainty. None of those that are like it or explained by it.
std::vector<const Ending*> rivals_of(const Scene& scene, const Ending& root);
// Adds the rivals to the verdict on `root`: a tie.
void tell_tie(const Scene& scene, const Ending& root, model::Verdict& verdict);

// Lines for the nodes whose data is missing.
void add_gaps(const Scene& scene, std::vector<std::string>& out);
// What a missing node would have told may change the verdict: lowers the confidence.
void doubt_gaps(const Scene& scene, model::Verdict& verdict);

// Sets the hosts of the culprits, and says where a command must be typed that concerns a process of another
// host.
void name_hosts(const Scene& scene, model::Verdict& verdict);

}  // namespace xpurun::report
