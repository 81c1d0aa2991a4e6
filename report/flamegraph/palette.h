// Palette: the look of a rank set in a picture. All ranks: neutral grey. More than half of the ranks: one
// quiet tint. Smaller sets, which contain culprits: a saturated colour and a pattern each, so that
// colour-blind readers can tell them apart. Beside culprits, small sets of mostly other ranks have one quiet
// look.
#pragma once

#include "report/flamegraph/layout.h"

#include <map>
#include <string>
#include <vector>

namespace xpurun::report {

// Number of small sets with a distinct look; further sets share "sx".
inline constexpr int kSetColors = 7;

struct LegendEntry {
  std::string css;   // "sa", "sm", "sq", "s1".."s7", "sx"
  std::string text;  // "rank 2: 1 of 4, the culprit"
};

class Palette {
 public:
  Palette(const Layout& layout, const model::RankSet& all, const model::RankSet& culprits);

  const std::string& css_of(const model::RankSet& ranks) const;
  const std::vector<LegendEntry>& legend() const { return legend_; }

 private:
  std::map<model::RankSet, std::string> css_;
  std::vector<LegendEntry> legend_;
};

// "rank 2", "ranks 0-1,3"; long sets are cut after some intervals.
std::string ranks_text(const model::RankSet& ranks);

}  // namespace xpurun::report
