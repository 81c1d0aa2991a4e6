#include "commands/analyze/table_text.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "launcher/output/text_block.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace xpurun::launcher {

namespace {

constexpr size_t kGoodText = 30;  // to this, a column of text may be cut before columns are left out
constexpr size_t kLeastText = 14;
constexpr int kGoodWeight = 7;  // columns of less weight are left out before texts are cut to kLeastText
constexpr size_t kSpace = 2;    // between columns

struct Layout {
  std::vector<size_t> shown;   // columns
  std::vector<size_t> widths;  // of all columns
};

size_t width_of(const Layout& layout) {
  size_t sum = 0;
  for (const size_t c : layout.shown) {
    sum += layout.widths[c] + kSpace;
  }
  return sum - std::min(sum, kSpace);
}

// The widest column of text, if it is wider than `least`.
size_t* widest_text(const report::TextTable& table, Layout& layout, size_t least) {
  size_t* out = nullptr;
  for (const size_t c : layout.shown) {
    size_t& width = layout.widths[c];
    if (!table.columns[c].number && width > least && (out == nullptr || width > *out)) {
      out = &width;
    }
  }
  return out;
}

// Cuts long texts, then leaves out the columns of little weight, then cuts more, then leaves out more.
void shrink(const report::TextTable& table, Layout& layout, size_t columns, size_t least_text, int weight) {
  while (width_of(layout) > columns) {
    if (size_t* width = widest_text(table, layout, least_text)) {
      *width -= std::min(width_of(layout) - columns, *width - least_text);
      continue;
    }
    const auto lightest = std::min_element(
        layout.shown.begin(), layout.shown.end(),
        [&table](size_t a, size_t b) { return table.columns[a].weight < table.columns[b].weight; });
    if (layout.shown.size() < 3 || table.columns[*lightest].weight >= weight) {
      return;
    }
    layout.shown.erase(lightest);
  }
}

Layout layout_of(const report::TextTable& table, size_t columns) {
  Layout out;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    size_t width = base::display_width(base::tr(table.columns[c].name));
    bool any = false;
    for (const auto& row : table.rows) {
      width = std::max(width, base::display_width(row[c]));
      any = any || !row[c].empty();
    }
    out.widths.push_back(width);
    if (any) {
      out.shown.push_back(c);
    }
  }
  shrink(table, out, columns, kGoodText, kGoodWeight);
  shrink(table, out, columns, kLeastText, report::kNeverLeftOut);
  return out;
}

std::string upper(std::string text) {
  for (char& c : text) {
    c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return text;
}

std::string line(const report::TextTable& table, const Layout& layout,
                 const std::vector<std::string>& cells) {
  std::string out;
  for (const size_t c : layout.shown) {
    const std::string cell = base::elide_middle(base::sanitize(cells[c]), layout.widths[c]);
    const std::string pad(layout.widths[c] - std::min(layout.widths[c], base::display_width(cell)), ' ');
    out += out.empty() ? "" : std::string(kSpace, ' ');
    out += table.columns[c].number ? pad + cell : cell + pad;
  }
  return out.erase(out.find_last_not_of(' ') + 1) + "\n";
}

}  // namespace

std::string table_text(const report::TextTable& table, size_t columns) {
  const Layout layout = layout_of(table, columns);
  std::vector<std::string> names;
  for (const report::TextColumn& column : table.columns) {
    names.push_back(upper(base::tr(column.name)));
  }
  std::string out = text_block(base::tr("{}. {}", base::tr(table.title), table.about), columns, 0) +
                    line(table, layout, names);
  for (const auto& row : table.rows) {
    out += line(table, layout, row);
  }
  if (table.rows.size() < table.all_rows) {
    out += text_block(base::tr("{} of {} rows; --format json has all", table.rows.size(), table.all_rows),
                      columns, 0);
  }
  return out;
}

}  // namespace xpurun::launcher
