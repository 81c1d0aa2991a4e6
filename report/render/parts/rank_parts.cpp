#include "report/render/parts/rank_parts.h"

#include "common/base/tr.h"
#include "report/flamegraph/palette.h"

#include <fmt/format.h>
#include <kainjow/mustache.hpp>

#include <algorithm>
#include <map>

namespace xpurun::report {

using base::tr;
using kainjow::mustache::data;

namespace {

constexpr size_t kTallTable = 20;
// With more ranks, scripts make the rows that are in sight; without scripts the first ones are there.
constexpr size_t kMostStaticRows = 200;
constexpr size_t kRowsOfMany = 50;
constexpr size_t kLeastForStrip = 16;
constexpr size_t kMostPieces = 2048;
constexpr size_t kLooks = 4;  // of states, beside the culprits'

// `--logs` kept the output of the ranks beside the page.
bool has_logs(const model::RunManifest& run) {
  return run.nodes.empty() && std::any_of(run.options.begin(), run.options.end(), [](const auto& o) {
           return o.name == "logs" && o.value != "off" && o.value != "false";
         });
}

data rank_data(const RankRow& r, bool logs) {
  data d;
  put_text(d, "log", logs ? fmt::format("ranks/{}/stderr.log", r.rank) : std::string());
  d.set("rank", fmt::format("{}", r.rank));
  d.set("culprit", r.culprit);
  d.set("state", r.state);
  put_text(d, "function", r.function);
  d.set("place", r.place);
  d.set("progress", r.progress);
  d.set("ending", r.ending);
  put_text(d, "host", r.host);
  d.set("pid", r.pid == 0 ? "" : fmt::format("{}", r.pid));
  return d;
}

struct Piece {
  model::RankSet ranks;
  bool culprit = false;
  std::string state;
};

// Neighbours in the same state are one piece.
std::vector<Piece> pieces_of(std::vector<const RankRow*> rows) {
  std::sort(rows.begin(), rows.end(), [](const RankRow* a, const RankRow* b) { return a->rank < b->rank; });
  std::vector<Piece> out;
  for (const RankRow* r : rows) {
    if (out.empty() || out.back().culprit != r->culprit || out.back().state != r->state) {
      out.push_back({.ranks = {}, .culprit = r->culprit, .state = r->state});
    }
    out.back().ranks.insert(r->rank);
  }
  return out;
}

void put_strip(data& page, const RunReport& report) {
  std::vector<const RankRow*> rows;
  std::map<std::pair<bool, std::string>, size_t> counts;
  for (const RankRow& r : report.ranks) {
    rows.push_back(&r);
    ++counts[{r.culprit, r.state}];
  }
  std::vector<std::pair<std::pair<bool, std::string>, size_t>> states(counts.begin(), counts.end());
  std::stable_sort(states.begin(), states.end(), [](const auto& a, const auto& b) {
    return std::pair(!a.first.first, a.second) < std::pair(!b.first.first, b.second);
  });
  std::map<std::pair<bool, std::string>, std::string> looks;
  data legend{data::type::list};
  std::string text;
  size_t next = 0;
  for (const auto& [state, count] : states) {
    const std::string look = state.first ? "culprit" : fmt::format("look{}", std::min(++next, kLooks));
    looks[state] = look;
    const std::string word = state.first ? tr("{}, culprit", state.second) : state.second;
    data d;
    d.set("look", look);
    d.set("state", word);
    d.set("count", fmt::format("{}", count));
    legend.push_back(d);
    text += fmt::format("{}{} {}", text.empty() ? "" : tr(", "), count, word);
  }
  data strip{data::type::list};
  std::vector<Piece> pieces =
      rows.size() < kLeastForStrip ? std::vector<Piece>() : pieces_of(std::move(rows));
  if (pieces.size() > kMostPieces) {
    pieces.clear();
  }
  for (const Piece& p : pieces) {
    data d;
    d.set("look", looks[{p.culprit, p.state}]);
    d.set("size", fmt::format("{}", p.ranks.size()));
    d.set("who", ranks_text(p.ranks));
    d.set("state", p.state);
    strip.push_back(d);
  }
  put_list(page, "strip", strip);
  page.set("strip_legend", legend);
  page.set("strip_text", text);
}

}  // namespace

void put_ranks(data& page, const RunReport& report, const PageLimits& limits) {
  const size_t all = report.ranks.size();
  const size_t most = std::min(limits.rows, all > kMostStaticRows ? kRowsOfMany : kMostStaticRows);
  const bool logs = has_logs(report.run);
  data ranks{data::type::list};
  for (size_t i = 0; i < std::min(all, most); ++i) {
    ranks.push_back(rank_data(report.ranks[i], logs));
  }
  put_list(page, "ranks", ranks);
  page.set("rank_count", (all == 1 ? tr("{} rank", all) : tr("{} ranks", all)) +
                             (report.verdict.ranks.empty() ? "" : tr(", culprits first")));
  page.set("many_ranks", all > kTallTable);
  put_text(page, "virtual_ranks", all > most ? fmt::format("{}", all) : std::string());
  put_text(page, "ranks_cut",
           all > most ? tr("{} more ranks are in report.json.", all - most) : std::string());
  put_strip(page, report);
}

}  // namespace xpurun::report
