// Nodes: nodes.json, schema "xpurun.nodes/1", in the run directory of the node that judges the whole job:
// which nodes it has, what came from each of them for one dump, and how their clocks differ from the clock of
// this node. Pure data; the supervisor of the elected node writes it, report/nodes reads it.
#pragma once

#include "common/base/result.h"
#include "common/model/rank_set.h"
#include "common/model/vocabulary.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

inline constexpr std::string_view kNodesSchema = "xpurun.nodes/1";
inline constexpr std::string_view kNodesFile = "nodes.json";
inline constexpr std::string_view kNodesDir = "nodes";  // holds what came from other nodes

struct NodeEntry {
  std::string node;  // name, unique in the job
  std::string host;
  int node_rank = -1;
  NodeStatus status = NodeStatus::complete;
  std::string reason;           // of any other status; may be empty
  double silent_s = 0;          // since its last word; 0: not known
  RankSet ranks;                // expected on the node
  int64_t offset_ns = 0;        // its clock minus the clock of this node
  int64_t uncertainty_ns = -1;  // of the offset; negative: not measured
  std::string directory;        // "nodes/<node>"; empty: nothing came, or this node
  std::string dump;             // its directory of the dump, "dumps/1-hang"; empty: not known
};

struct Nodes {
  std::string request;    // the dump for which the data was sent
  std::string this_node;  // whose run directory this is
  std::string elected;
  std::vector<NodeEntry> nodes;  // this one included
};

nlohmann::ordered_json to_json(const Nodes& nodes);
base::Result<Nodes> nodes_from_json(const nlohmann::json& j);
base::Result<Nodes> load_nodes(const std::string& path);

}  // namespace xpurun::model
