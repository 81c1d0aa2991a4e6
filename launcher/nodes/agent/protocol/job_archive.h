// The archive of what all nodes have sent for one verdict, as the node that has judged hands it to the
// others: the list of the nodes, then for each node the files of its dump below its name. The reader trusts
// nothing: only names of that list are directories, and never this node's own. Blocking file operations where
// said.
#pragma once

#include "common/base/result.h"
#include "launcher/nodes/agent/protocol/archive.h"
#include "launcher/nodes/node_messages.h"

#include <string>
#include <string_view>
#include <vector>

namespace xpurun::nodes {

struct JobContent {
  std::string run_directory;  // of the node that has judged
  std::string node;           // its name
  launcher::GatheredMessage gathered;
};
// Reads files. Empty: more than kMostUnpackedJobFiles.
std::string pack_job(const JobContent& content);

struct JobReader {
  std::string self;   // name of this node
  std::string judge;  // of the node that has judged
};
struct JobFiles {
  launcher::GatheredMessage gathered;  // seen from this node
  std::vector<ArchiveFile> files;      // "<node>/run.json"
};
base::Result<JobFiles> read_job(const JobReader& reader, std::string_view archive);

// Writes the files below nodes/ in the run directory of this node.
base::Result<launcher::GatheredMessage> unpack_job(const std::string& run_directory, const JobReader& reader,
                                                   std::string_view archive);

}  // namespace xpurun::nodes
