// What the nodes of a job have answered to the request for a capture, and which results can be read here.
#pragma once

#include "launcher/output/node_list.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

struct CapturedNode {
  std::string node;
  std::string host;       // empty: not known
  std::string run_dir;    // absolute, on that host
  std::string dir;        // of the capture, in the run directory; empty: there is no capture
  std::string error;      // why not
  bool own = false;       // the node that was asked
  bool has_ranks = true;  // false: none of the chosen ranks is on this node
  bool readable = false;

  std::string path() const { return run_dir + "/" + dir; }
};

// Pure. `reply` has the answers; `list` is the asked node's, `own_dir` its run directory as it is named here.
// Nodes of the job that have given no answer are included if `all` were asked.
std::vector<CapturedNode> captured_nodes(std::string_view reply, const NodeList& list, bool all,
                                         const std::string& own_dir);

// Marks the nodes whose files are in a file system of this host. A path may exist on several hosts, so
// run.json must be of the node's host, and two nodes cannot have one directory.
void find_readable(std::vector<CapturedNode>& nodes);

// Lines about nodes whose results are missing. Nodes without chosen ranks are left out if another node was
// captured.
std::vector<std::string> missing_lines(const std::vector<CapturedNode>& nodes);

nlohmann::ordered_json to_json(const std::vector<CapturedNode>& nodes);

}  // namespace xpurun::launcher
