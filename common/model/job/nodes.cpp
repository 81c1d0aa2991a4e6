#include "common/model/job/nodes.h"

#include "common/model/json_visitors.h"

namespace xpurun::model {

template <typename V, Self<NodeEntry> N>
void fields(V& visit, N& n) {
  visit("node", n.node);
  visit("host", n.host);
  visit.index("node_rank", n.node_rank);
  visit("status", n.status);
  visit("reason", n.reason);
  visit("silent_s", n.silent_s);
  visit("ranks", n.ranks);
  visit("offset_ns", n.offset_ns);
  visit("uncertainty_ns", n.uncertainty_ns);
  visit("directory", n.directory);
  visit("dump", n.dump);
}

template <typename V, Self<Nodes> N>
void fields(V& visit, N& n) {
  visit("request", n.request);
  visit("this_node", n.this_node);
  visit("elected", n.elected);
  visit("nodes", n.nodes);
}

nlohmann::ordered_json to_json(const Nodes& nodes) {
  return write_object(kNodesSchema, nodes);
}

base::Result<Nodes> nodes_from_json(const nlohmann::json& j) {
  return read_object<Nodes>(kNodesSchema, "list of nodes", j);
}

base::Result<Nodes> load_nodes(const std::string& path) {
  return load_object(path, nodes_from_json);
}

}  // namespace xpurun::model
