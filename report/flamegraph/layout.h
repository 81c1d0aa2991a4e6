// Layout: the boxes of a flame graph and their places, as fractions of a panel's width. Independent of SVG.
// Roots are at the top; width is the number of ranks (a few lone ranks among very many are drawn wider, so
// that they are visible). One panel holds comparable stacks: first the main threads of the ranks, then their
// other threads, then data loader workers, then launchers and the rest.
#pragma once

#include "report/tree/stack_forest.h"

#include <string>
#include <vector>

namespace xpurun::report {

struct Box {
  double x = 0;      // 0..1 of the panel
  double width = 0;  // the same; never more than the parent's
  int depth = 0;
  std::string label;
  std::string detail;
  model::FrameKind kind = model::FrameKind::native;
  model::RankSet ranks;
  size_t n = 0;  // ranks, or processes without rank
  uint32_t threads = 0;
  std::string states;
  bool diverges = false;  // has fewer ranks than its parent: noted in the picture
  std::string look;       // class of its colour; empty: that of its rank set
  std::string compared;   // "+12.0 % of the time compared with ranks 0-1", for the tooltip
};

struct Panel {
  std::string title;
  std::string unit;        // "ranks" or "processes"
  size_t total = 0;        // the weight that fills the width
  int depth = 0;           // rows
  std::vector<Box> boxes;  // a box stands behind its parent
};

struct Layout {
  std::vector<Panel> panels;  // empty ones are left out
  size_t folded = 0;          // frames folded into boxes "(other, n frames)"
};

struct LayoutOptions {
  size_t max_boxes = 2000;
};

Layout lay_out(const StackForest& forest, Layer layer, const LayoutOptions& options);

}  // namespace xpurun::report
