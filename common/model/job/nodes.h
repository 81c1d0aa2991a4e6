// Nodes: nodes.json, schema "xpurun.nodes/1", in the run directory of the elected node: the job's nodes, the
// data that each of them sent for one dump, and the offsets of their clocks from this node's clock. Pure
// data; the supervisor of the elected node writes it, report/nodes reads it.
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
inline constexpr std::string_view kNodesDir = "nodes";  // holds data from other nodes

struct NodeEntry {
  std::string node;  // name, unique in the job
  std::string host;
  int node_rank = -1;
  NodeStatus status = NodeStatus::complete;
  std::string reason;           // for statuses other than complete; may be empty
  double silent_s = 0;          // seconds since its last message; 0: unknown
  RankSet ranks;                // expected on the node
  int64_t offset_ns = 0;        // the node's clock minus this node's clock
  int64_t uncertainty_ns = -1;  // uncertainty of the offset; negative: not measured
  std::string directory;        // "nodes/<node>"; empty: no data, or this node
  std::string dump;             // the node's own directory of the dump, "dumps/1-hang"; empty: unknown
};

struct Nodes {
  std::string request;    // the dump request that the data answers
  std::string this_node;  // owner of this run directory
  std::string elected;
  std::vector<NodeEntry> nodes;  // including this node
};

nlohmann::ordered_json to_json(const Nodes& nodes);
// An error means that the content does not match the schema; load_*() errors also name the path.
base::Result<Nodes> nodes_from_json(const nlohmann::json& j);
base::Result<Nodes> load_nodes(const std::string& path);

}  // namespace xpurun::model
