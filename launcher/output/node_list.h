// NodeList: the nodes of a job as one of them knows them, for the "nodes" request and `xpurun nodes`. Plain
// data; the text is a pure function.
#pragma once

#include "common/base/result.h"
#include "common/model/vocabulary.h"
#include "launcher/output/ink.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

struct ListedNode {
  std::string node;
  int node_rank = 0;
  std::string host;
  model::NodePhase phase = model::NodePhase::starting;
  bool alive = true;
  bool elected = false;         // judges for all
  double still_s = 0;           // of its rank that has been still longest
  double seen_s = 0;            // since its last message
  int64_t offset_ns = 0;        // its clock minus the asked node's clock
  int64_t uncertainty_ns = -1;  // of the offset; negative: not measured
  std::string ranks;            // "0-7"
};

struct NodeList {
  std::string node;               // the node that was asked; empty: the job has only one
  std::string run;                // the job's identifier
  std::string server;             // empty: not connected
  std::string reason;             // why not; empty: none
  int expected = 0;               // nodes of the job; 0: not known
  std::vector<ListedNode> nodes;  // by node rank
};

nlohmann::ordered_json to_json(const NodeList& list);
base::Result<NodeList> node_list_from_json(std::string_view text);

// A header, one line per node, then what is wrong.
std::string node_table(const NodeList& list, size_t columns, const Ink& ink);

}  // namespace xpurun::launcher
