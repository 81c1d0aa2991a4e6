// Writes a layout as SVG: legible as a static picture, and with zoom, search and keyboard where scripts run.
// Two forms: a standalone file that carries style and script, and a fragment for a page that has both.
#pragma once

#include "common/model/rank_set.h"
#include "report/flamegraph/layout.h"
#include "report/flamegraph/palette.h"

#include <string>
#include <string_view>

namespace xpurun::report {

struct SvgText {
  Layer layer = Layer::merged;
  std::string title;                     // "Stacks of 4 ranks"
  std::string subtitle;                  // run and dump
  std::string width_is = "ranks";        // or "samples", "KiB"
  std::vector<LegendEntry> legend = {};  // of boxes with a look of their own; empty: the palette's
};

std::string svg_file(const Layout& layout, const Palette& palette, const SvgText& text);
// No <style>, no <script>, no legend, no patterns: the page holds them once for all its pictures.
std::string svg_fragment(const Layout& layout, const Palette& palette, const SvgText& text);
// The hatches that the style refers to, as the content of <defs>.
std::string_view svg_patterns();

}  // namespace xpurun::report
