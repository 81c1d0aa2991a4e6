// Palette: which look a set of ranks has in a picture. All ranks: neutral grey. More than half of them: one
// quiet tint. Smaller sets, where culprits are found: saturated colours with a pattern each, told apart by
// the colour-blind as well.
#pragma once

#include "report/flamegraph/layout.h"

#include <map>
#include <string>
#include <vector>

namespace xpurun::report {

// Looks of their own for this many small sets; further ones share "sx".
inline constexpr int kSetColors = 7;

struct LegendEntry {
  std::string css;   // "sa", "sm", "s1".."s7", "sx"
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
