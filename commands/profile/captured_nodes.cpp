#include "commands/profile/captured_nodes.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/json_fields.h"
#include "common/model/run_dir.h"
#include "common/model/run_manifest.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <set>

namespace xpurun::launcher {

namespace {

constexpr int kNoSuchNode = 404;

std::string text_at(const nlohmann::json& j, const char* key) {
  const nlohmann::json* found = j.is_object() ? model::member(j, key) : nullptr;
  return found != nullptr && found->is_string() ? found->get<std::string>() : std::string();
}

int status_of(const nlohmann::json& answer) {
  const nlohmann::json* found = answer.is_object() ? model::member(answer, "status") : nullptr;
  return found != nullptr && found->is_number_integer() ? found->get<int>() : 0;
}

const ListedNode* listed(const NodeList& list, const std::string& node) {
  const auto found =
      std::find_if(list.nodes.begin(), list.nodes.end(), [&](const ListedNode& n) { return n.node == node; });
  return found == list.nodes.end() ? nullptr : &*found;
}

CapturedNode captured_node(const nlohmann::json& answer, const NodeList& list, const std::string& own_dir) {
  CapturedNode out{.node = text_at(answer, "node")};
  if (const ListedNode* known = listed(list, out.node)) {
    out.host = known->host;
  }
  const nlohmann::json* found = answer.is_object() ? model::member(answer, "reply") : nullptr;
  const nlohmann::json reply = found == nullptr ? nlohmann::json() : *found;
  out.dir = text_at(reply, "dir");
  out.own = out.node == list.node;
  out.run_dir = out.own ? own_dir : text_at(reply, "run_dir");
  if (out.dir.empty()) {
    const std::string error = text_at(reply, "error");
    out.has_ranks = text_at(reply, "code") != "no_ranks";
    out.error = status_of(answer) == kNoSuchNode
                    ? base::cli_text("there is no such node: xpurun nodes lists them")
                : error.empty() ? base::cli_text("no answer")
                                : error;
  }
  return out;
}

// A node that has ended has no ranks to be captured.
void add_silent(const NodeList& list, std::vector<CapturedNode>& nodes) {
  for (const ListedNode& n : list.nodes) {
    const bool answered = std::any_of(nodes.begin(), nodes.end(),
                                      [&](const CapturedNode& known) { return known.node == n.node; });
    if (!answered && n.phase != model::NodePhase::ended) {
      nodes.push_back({.node = n.node, .host = n.host, .error = base::cli_text("no answer")});
    }
  }
}

}  // namespace

std::vector<CapturedNode> captured_nodes(std::string_view reply, const NodeList& list, bool all,
                                         const std::string& own_dir) {
  const auto j = model::parse_json(reply);
  const nlohmann::json* answers = j.is_object() ? model::member(j, "answers") : nullptr;
  if (answers == nullptr || !answers->is_array()) {
    return {captured_node({{"node", list.node}, {"reply", j}}, list, own_dir)};
  }
  std::vector<CapturedNode> out;
  for (const nlohmann::json& answer : *answers) {
    out.push_back(captured_node(answer, list, own_dir));
  }
  if (all) {
    add_silent(list, out);
  }
  const auto place = [&](const CapturedNode& n) {
    const ListedNode* known = listed(list, n.node);
    return known == nullptr ? list.expected : known->node_rank;
  };
  std::stable_sort(out.begin(), out.end(),
                   [&](const CapturedNode& a, const CapturedNode& b) { return place(a) < place(b); });
  return out;
}

void find_readable(std::vector<CapturedNode>& nodes) {
  std::set<std::filesystem::path> seen;
  std::error_code ec;
  for (CapturedNode& node : nodes) {
    node.readable = node.own && !node.dir.empty();
    if (node.readable) {
      seen.insert(std::filesystem::weakly_canonical(node.run_dir, ec));
    }
  }
  for (CapturedNode& node : nodes) {
    if (node.own || node.dir.empty() || !std::filesystem::exists(node.path() + "/profile.json", ec)) {
      continue;
    }
    const auto run = model::load_run_manifest(node.run_dir + "/run.json");
    node.readable = run && run->host == node.host &&
                    seen.insert(std::filesystem::weakly_canonical(node.run_dir, ec)).second;
  }
}

std::vector<std::string> missing_lines(const std::vector<CapturedNode>& nodes) {
  const bool captured =
      std::any_of(nodes.begin(), nodes.end(), [](const CapturedNode& n) { return !n.dir.empty(); });
  std::vector<std::string> out;
  for (const CapturedNode& n : nodes) {
    if (n.dir.empty() && (n.has_ranks || !captured)) {
      out.push_back(n.node.empty()
                        ? base::sanitize(n.error)
                        : base::cli_text("node {}: {}", base::sanitize(n.node), base::sanitize(n.error)));
    } else if (!n.dir.empty() && !n.readable) {
      out.push_back(
          base::cli_text("node {}: {}:{} cannot be read here; run xpurun analyze on that host, or on "
                         "copies of the run directories of all nodes",
                         base::sanitize(n.node), base::sanitize(n.host), base::sanitize(n.path())));
    }
  }
  return out;
}

nlohmann::ordered_json to_json(const std::vector<CapturedNode>& nodes) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const CapturedNode& n : nodes) {
    out.push_back({{"node", n.node},
                   {"host", n.host},
                   {"dir", n.dir.empty() ? "" : n.path()},
                   {"readable", n.readable},
                   {"error", n.error}});
  }
  return out;
}

}  // namespace xpurun::launcher
