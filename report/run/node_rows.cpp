#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/run/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace xpurun::report {

using base::tr;

namespace {

constexpr size_t kMostStates = 4;

std::string clock_words(const model::RunNode& node) {
  if (!node.answered) {
    return {};
  }
  if (!node.clock_known) {
    return tr("not compared");
  }
  return tr("{:+.1f} ms, known to {:.1f} ms", node.offset_s * 1e3, node.uncertainty_s * 1e3);
}

std::string tally_words(const std::map<std::string, size_t>& tally) {
  std::vector<std::pair<std::string, size_t>> sorted(tally.begin(), tally.end());
  // The positions of few ranks say more than those of many.
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<std::string> parts;
  for (size_t i = 0; i < std::min(sorted.size(), kMostStates); ++i) {
    parts.push_back(fmt::format("{} {}", sorted[i].second, sorted[i].first));
  }
  return base::join(parts, tr(", ")) + (sorted.size() > kMostStates ? tr(", ") + "..." : "");
}

}  // namespace

std::vector<NodeRow> node_rows(const model::RunManifest& run, const std::vector<RankRow>& ranks) {
  std::map<base::Rank, size_t> node_of;
  for (size_t n = 0; n < run.nodes.size(); ++n) {
    for (const base::Rank rank : run.nodes[n].ranks.ranks()) {
      node_of.emplace(rank, n);
    }
  }
  std::vector<std::map<std::string, size_t>> tallies(run.nodes.size());
  std::vector<NodeRow> out;
  for (const model::RunNode& node : run.nodes) {
    out.push_back({.name = node.name,
                   .host = node.host,
                   .ranks = node.ranks,
                   .status = node.status,
                   .gap = node.gap,
                   .clock = out.empty() ? tr("this node") : clock_words(node)});
  }
  for (const RankRow& r : ranks) {
    if (const auto it = node_of.find(r.rank); it != node_of.end()) {
      ++tallies[it->second][r.state.empty() ? tr("unknown") : r.state];
      out[it->second].culprit = out[it->second].culprit || r.culprit;
    }
  }
  for (size_t n = 0; n < out.size(); ++n) {
    out[n].states = tally_words(tallies[n]);
  }
  std::stable_sort(out.begin(), out.end(), [](const NodeRow& a, const NodeRow& b) {
    return std::pair(!a.culprit, a.gap.empty()) < std::pair(!b.culprit, b.gap.empty());
  });
  return out;
}

}  // namespace xpurun::report
