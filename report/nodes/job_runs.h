// JobRuns: the run directories of the nodes of one job, as far as they are here: what lies below nodes/ in
// the directory of the elected node, or directories that the user has put side by side. Anything that does
// not fit is named in `notes` and left out; content of other nodes may be damaged or hostile.
#pragma once

#include "common/base/result.h"
#include "common/model/job/nodes.h"
#include "common/model/run_dir.h"
#include "common/model/run_manifest.h"

#include <map>
#include <string>
#include <vector>

namespace xpurun::report {

struct NodeRun {
  model::NodeEntry entry;
  std::string path;        // of its run directory; empty: no data
  std::string label;       // before the names of its dumps: "nodes/b/"; empty: this node
  bool answered = false;   // run.json could be read
  model::RunManifest run;  // times as that node has written them
  std::string trouble;     // why its data is not complete, if the entry does not say so
};

struct JobRuns {
  std::vector<NodeRun> nodes;  // this node first, then by rank of the node
  std::vector<std::string> notes;
  // Another node judged, and handed the data of all nodes to this one: its verdict, in run.json, holds.
  bool handed = false;

  bool several() const { return nodes.size() > 1; }
};

// The run directory, with what nodes.json names beside it. E-NO-RUN if there is no run.
base::Result<JobRuns> read_job(const model::RunDir& dir);
// Directories of several nodes, the first counts as this node. E-NODES if they are not of one job.
base::Result<JobRuns> read_job(const std::vector<model::RunDir>& dirs);
// As users name them: run directories, or else directories with traces of other tools, one for each node.
base::Result<JobRuns> read_job(const std::vector<std::string>& places);

// Ranks that two nodes claim to have had at the same time: one counts.
class RankOwners {
 public:
  // `shifts_s`: by node, what is added to its times.
  RankOwners(const JobRuns& job, const std::vector<double>& shifts_s);

  // Of two nodes that had a rank one after the other, the later one.
  bool owns(size_t node, base::Rank rank) const;
  // Ignores all data of this rank on this node.
  bool disputed(size_t node, base::Rank rank) const;
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  std::map<base::Rank, size_t> owners_;
  model::RankSet disputes_;
  std::vector<std::string> notes_;
};

}  // namespace xpurun::report
