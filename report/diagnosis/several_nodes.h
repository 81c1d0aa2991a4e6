// Parts of a verdict that exist only when the runs of several nodes were put together: nodes without data,
// the limited agreement of clocks, and the culprit's host. Empty for a job of one node. Also: the verdict
// over all nodes, where another node has made it.
#pragma once

#include "report/diagnosis/rule.h"

#include <optional>
#include <string>
#include <vector>

namespace xpurun::report {

// Failures on other nodes that may have come before or after `root`, because the nodes' clocks agree only
// within some uncertainty. Leaves out failures that equal `root` or follow from it.
std::vector<const Ending*> rivals_of(const Scene& scene, const Ending& root);
// Adds the rivals to the verdict on `root` and makes it a tie.
void tell_tie(const Scene& scene, const Ending& root, model::Verdict& verdict);
// If `root` left a call that waits for other ranks, ranks of nodes that did not answer may be its reason: a
// node whose processes were all killed says nothing. They are named too, and the confidence is low.
void tell_unheard(const Scene& scene, const Ending& root, model::Verdict& verdict);

// Adds evidence lines for the nodes whose data is missing.
void add_gaps(const Scene& scene, std::vector<std::string>& out);
// Lowers the confidence if a missing node's data could change the verdict.
void doubt_gaps(const Scene& scene, model::Verdict& verdict);

// Sets the culprits' hosts, and says on which host to type a command that concerns a process there.
void name_hosts(const Scene& scene, model::Verdict& verdict);

// The verdict over all nodes that another node has made. run.json keeps it, because the ranks of this node
// alone cannot give it. Nothing for a run that knows no such verdict, and for runs that were merged: they
// give their own.
std::optional<model::Verdict> verdict_of_job(const model::RunManifest& run);

// Whether the culprit ran on another host than this run, so that its pid, dump and log are not here.
bool is_culprit_elsewhere(const model::RunManifest& run, const model::Verdict& verdict);

}  // namespace xpurun::report
