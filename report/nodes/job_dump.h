// JobDump: the dumps of several nodes that show one moment of the job, as one.
#pragma once

#include "common/model/collectives.h"
#include "common/model/dump_manifest.h"
#include "common/model/stack_snapshot.h"
#include "report/nodes/job_runs.h"

#include <optional>
#include <string>
#include <vector>

namespace xpurun::report {

// The dump of one node.
struct DumpPart {
  size_t node = 0;
  std::string name;  // "dumps/1-hang", "nodes/b/dumps/1-hang"
  std::string path;
  double at_s = 0;  // on the clock of this node, since the begin of its run
};

struct JobDump {
  std::string shown;            // name of the part that decides on the moment; empty without any dump
  bool evidence = false;        // the verdict may rest on it
  double at_s = 0;              // the moment
  std::vector<DumpPart> parts;  // one of each node that has one, by node
};

// The dump that the verdict rests on, else the last one, and what the other nodes have of that moment. `run`
// is the merged manifest.
JobDump pick_job_dump(const JobRuns& job, const model::RunManifest& run);

// All parts as one. Ranks that are in no part are in the manifest too: dead ranks as observed, and living
// ranks as processes without stacks, with the reason.
struct MergedDump {
  std::optional<model::DumpManifest> manifest;  // nothing if no part has a readable manifest
  std::vector<model::ProcessStacks> absent;     // the ranks that are in no part
};
MergedDump merge_dumps(const JobRuns& job, const model::RunManifest& run, const RankOwners& owners,
                       const JobDump& dump);

// Adds the calls that one part has recorded. `later_s`: by how much the part was taken after the moment.
void add_calls_of(model::CollectiveFacts part, const DumpPart& of, double later_s, const RankOwners& owners,
                  model::CollectiveFacts& all);
// The members of communicators that span nodes; each list of members is kept once.
void complete_members(model::CollectiveFacts& all);

}  // namespace xpurun::report
