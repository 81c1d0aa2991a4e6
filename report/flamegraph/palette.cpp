#include "report/flamegraph/palette.h"

#include "common/base/strings.h"
#include "common/base/tr.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace xpurun::report {

using base::tr;

namespace {

const std::string kNoRanks = "sn";

// Every small set once: those of the first panel before the others, each by size.
std::vector<model::RankSet> small_sets(const Layout& layout, const model::RankSet& all,
                                       const model::RankSet& culprits) {
  std::vector<model::RankSet> out;
  if (!culprits.empty() && culprits != all) {
    out.push_back(culprits);
  }
  for (const Panel& panel : layout.panels) {
    std::vector<model::RankSet> here;
    for (const Box& box : panel.boxes) {
      if (!box.ranks.empty() && box.ranks != all && box.ranks.size() * 2 <= all.size()) {
        here.push_back(box.ranks);
      }
    }
    std::sort(here.begin(), here.end(), [](const model::RankSet& a, const model::RankSet& b) {
      return std::pair(a.size(), a) < std::pair(b.size(), b);
    });
    for (model::RankSet& set : here) {
      if (std::find(out.begin(), out.end(), set) == out.end() && out.size() < 200) {
        out.push_back(std::move(set));
      }
    }
  }
  return out;
}

// Whether at least half of a set are in the other.
bool mostly(const model::RankSet& set, const model::RankSet& other) {
  const auto ranks = other.ranks();
  const auto n =
      std::count_if(ranks.begin(), ranks.end(), [&set](base::Rank rank) { return set.contains(rank); });
  return 2 * static_cast<size_t>(n) >= set.size();
}

}  // namespace

std::string ranks_text(const model::RankSet& ranks) {
  if (ranks.empty()) {
    return tr("no rank");
  }
  std::string text = ranks.text();
  if (constexpr size_t kLongest = 40; text.size() > kLongest) {
    text = text.substr(0, text.rfind(',', kLongest)) + ",…";
  }
  return ranks.size() == 1 ? tr("rank {}", text) : tr("ranks {}", text);
}

Palette::Palette(const Layout& layout, const model::RankSet& all, const model::RankSet& culprits) {
  if (all.empty()) {
    return;
  }
  css_[all] = "sa";
  std::vector<model::RankSet> small = small_sets(layout, all, culprits);
  std::vector<model::RankSet> quiet;
  if (!culprits.empty() && culprits != all) {
    // Beside a culprit, sets that are mostly other ranks are quiet.
    const auto first = std::stable_partition(
        small.begin(), small.end(), [&](const model::RankSet& set) { return mostly(set, culprits); });
    quiet.assign(std::make_move_iterator(first), std::make_move_iterator(small.end()));
    small.erase(first, small.end());
  }
  for (const model::RankSet& set : quiet) {
    css_[set] = "sq";
  }
  for (size_t i = 0; i < small.size(); ++i) {
    const bool own = i < static_cast<size_t>(kSetColors);
    css_[small[i]] = own ? fmt::format("s{}", i + 1) : "sx";
    if (own) {
      legend_.push_back({.css = css_[small[i]],
                         .text = tr("{}: {} of {}{}", ranks_text(small[i]), small[i].size(), all.size(),
                                    small[i] == culprits ? tr(", the culprit") : "")});
    }
  }
  if (small.size() > static_cast<size_t>(kSetColors)) {
    legend_.push_back({.css = "sx", .text = tr("other small sets")});
  }
  if (!quiet.empty()) {
    legend_.push_back(
        {.css = "sq", .text = quiet.size() == 1 ? ranks_text(quiet[0]) : tr("some of the other ranks")});
  }
  std::vector<model::RankSet> large;
  bool all_seen = false;
  for (const Panel& panel : layout.panels) {
    for (const Box& box : panel.boxes) {
      all_seen = all_seen || box.ranks == all;
      if (!box.ranks.empty() &&
          css_.try_emplace(box.ranks, box.ranks.size() * 2 > all.size() ? "sm" : "sx").second &&
          box.ranks.size() * 2 > all.size()) {
        large.push_back(box.ranks);
      }
    }
  }
  if (!large.empty()) {
    legend_.push_back({.css = "sm",
                       .text = large.size() == 1
                                   ? tr("{}: {} of {}", ranks_text(large[0]), large[0].size(), all.size())
                                   : tr("most ranks ({} sets)", large.size())});
  }
  if (all_seen) {
    legend_.push_back(
        {.css = "sa", .text = all.size() == 1 ? ranks_text(all) : tr("all {} ranks", all.size())});
  }
}

const std::string& Palette::css_of(const model::RankSet& ranks) const {
  const auto it = css_.find(ranks);
  return it == css_.end() ? kNoRanks : it->second;
}

}  // namespace xpurun::report
