#include "commands/analyze/comparison_text.h"

#include "commands/analyze/table_text.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "launcher/output/text_block.h"
#include "report/compare/comparison_table.h"

#include <fmt/format.h>

namespace xpurun::launcher {

namespace {

constexpr size_t kSideColumn = 9;
constexpr size_t kShownDifferences = 24;
constexpr size_t kShownNames = 8;

std::string only_in(std::string_view side, const std::vector<std::string>& names, size_t columns) {
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), kShownNames); ++i) {
    list += (i == 0 ? "" : "; ") + base::sanitize(names[i]);
  }
  if (names.size() > kShownNames) {
    list += base::tr("; {} more", names.size() - kShownNames);
  }
  return names.empty() ? "" : definition(base::tr("only {}", side), list, columns, kSideColumn);
}

}  // namespace

std::string comparison_text(const model::Comparison& c, size_t columns) {
  std::string out = text_block(base::sanitize(c.sentence), columns, 0);
  out += '\n' + definition("A", report::side_words(c.a), columns, kSideColumn);
  out += definition("B", report::side_words(c.b), columns, kSideColumn);
  out += only_in("A", c.only_a, columns) + only_in("B", c.only_b, columns);
  const report::TextTable table = report::comparison_table(c, kShownDifferences);
  return table.rows.empty() ? out : out + '\n' + table_text(table, columns);
}

}  // namespace xpurun::launcher
