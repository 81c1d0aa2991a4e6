#include "report/render/comparison/comparison_page.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/compare/comparison_table.h"
#include "report/compare/metric_test.h"
#include "report/compare/verdict.h"
#include "report/flamegraph/escape.h"
#include "report/render/comparison/spread_pair.h"
#include "report/render/parts/page_parts.h"
#include "templates/templates.h"

#include <fmt/format.h>
#include <kainjow/mustache.hpp>

#include <algorithm>
#include <cmath>

namespace xpurun::report {

using kainjow::mustache::data;
using kainjow::mustache::mustache;

namespace {

constexpr size_t kMostDifferences = 2000;
constexpr size_t kMostBars = 24;
constexpr double kForestWidth = 1000;
constexpr double kText = 420;  // of the names
constexpr double kRow = 26;
constexpr double kMostEffect = 1;  // longer bars are cut
constexpr size_t kMostName = 56;

bool is_reported(const model::ComparedMetric& m) {
  return m.judgement == model::Judgement::slower || m.judgement == model::Judgement::faster;
}

data side_data(const char* letter, const model::ComparedSide& side) {
  data d;
  d.set("letter", letter);
  d.set("words", side_words(side));
  return d;
}

data names_data(const char* letter, const std::vector<std::string>& names) {
  data d;
  d.set("letter", letter);
  put_list(d, "names", string_list(names));
  return d;
}

data rows_of(const TextTable& table) {
  data rows{data::type::list};
  for (const std::vector<std::string>& row : table.rows) {
    data cells{data::type::list};
    for (size_t i = 1; i < row.size(); ++i) {
      data cell;
      cell.set("text", row[i]);
      cell.set("number", table.columns[i].number);
      cells.push_back(cell);
    }
    data one;
    one.set("first", row.front());
    one.set("cells", cells);
    rows.push_back(one);
  }
  return rows;
}

}  // namespace

std::string effect_plot(const model::Comparison& comparison) {
  std::vector<const model::ComparedMetric*> shown;
  for (const model::ComparedMetric& m : comparison.metrics) {
    if ((is_reported(m) || m.kind == model::MetricKind::step) && shown.size() < kMostBars) {
      shown.push_back(&m);
    }
  }
  if (shown.empty()) {
    return "";
  }
  double most = 0.1;
  for (const model::ComparedMetric* m : shown) {
    most = std::max(most, std::min(std::abs(m->effect), kMostEffect));
  }
  const double middle = kText + (kForestWidth - kText - 60) / 2;
  const double unit = (kForestWidth - kText - 180) / 2 / most;
  const double height = static_cast<double>(shown.size()) * kRow + 8;
  std::string out = fmt::format(
      "<svg class=\"effects\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n"
      "<path class=\"rule\" d=\"M{:.1f} 0V{}\"/>\n",
      kForestWidth, height, escape_attribute(base::tr("Change from A to B of {} metrics", shown.size())),
      middle, height);
  for (size_t i = 0; i < shown.size(); ++i) {
    const model::ComparedMetric& m = *shown[i];
    const double y = static_cast<double>(i) * kRow + 6;
    const double length = std::min(std::abs(m.effect), kMostEffect) * unit;
    const bool more = m.effect > 0;
    const std::string name = base::elide_middle(metric_words(m.kind, base::sanitize(m.name)), kMostName);
    out += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", kText - 10, y + 14,
                       escape_attribute(name));
    out += fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\"/>\n",
                       name_of(m.judgement), more ? middle : middle - length, y, std::max(length, 1.0),
                       kRow - 8);
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n",
                       more ? middle + length + 6 : middle - length - 6, y + 14, more ? "start" : "end",
                       m.effect < kLargestEffect ? signed_percent(m.effect) : "new");
  }
  return out + "</svg>\n";
}

std::string comparison_page(const model::Comparison& comparison) {
  data page;
  const bool step_differs = !comparison.metrics.empty() && is_reported(comparison.metrics.front());
  const bool slower = step_differs && comparison.metrics.front().effect > 0;
  const bool any = std::any_of(comparison.metrics.begin(), comparison.metrics.end(), is_reported);
  page.set("lang", base::spoken() == base::Language::chinese ? "zh-CN" : "en");
  page.set("look", slower ? "bad" : any ? "suspected" : "");
  page.set("icon", slower ? "!" : any ? "≠" : "=");
  page.set("kind", any ? base::tr("Difference") : base::tr("No difference"));
  page.set("headline", capitalized(comparison_sentence(comparison)));
  data sides{data::type::list};
  sides.push_back(side_data("A", comparison.a));
  sides.push_back(side_data("B", comparison.b));
  page.set("sides", sides);
  data only{data::type::list};
  for (const auto& [letter, names] :
       {std::pair("A", &comparison.only_a), std::pair("B", &comparison.only_b)}) {
    if (!names->empty()) {
      only.push_back(names_data(letter, *names));
    }
  }
  put_list(page, "only", only);
  put_text(page, "plot", effect_plot(comparison));
  put_text(page, "spread", spread_pairs(comparison));
  const TextTable table = comparison_table(comparison, kMostDifferences);
  page.set("about", table.about);
  data columns{data::type::list};
  for (const TextColumn& column : table.columns) {
    data one;
    one.set("text", column.name);
    columns.push_back(one);
  }
  page.set("columns", columns);
  put_list(page, "rows", rows_of(table));
  page.set("css", std::string(templates::kReportCss));
  put_scripts(page, {templates::kWordsJs, templates::kReportJs});
  mustache page_template{base::tr_template(templates::kComparisonMustache)};
  page_template.set_custom_escape([](const std::string& text) { return escape_attribute(text); });
  return page_template.render(page);
}

}  // namespace xpurun::report
