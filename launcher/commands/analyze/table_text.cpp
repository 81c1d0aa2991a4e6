#include "launcher/commands/analyze/table_text.h"

#include "common/base/strings.h"
#include "launcher/output/text_block.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace xpurun::launcher {

namespace {

constexpr size_t kLeastText = 14;  // a text column may be cut to this
constexpr size_t kSpace = 2;       // between columns

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

// Cuts texts first, then leaves columns out.
Layout layout_of(const report::TextTable& table, size_t columns) {
  Layout out;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    size_t width = base::display_width(table.columns[c].name);
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
  const auto lightest = [&table](size_t a, size_t b) {
    return table.columns[a].weight < table.columns[b].weight;
  };
  while (width_of(out) > columns) {
    const size_t excess = width_of(out) - columns;
    const auto widest = std::max_element(out.shown.begin(), out.shown.end(), [&](size_t a, size_t b) {
      return (table.columns[a].number ? 0 : out.widths[a]) < (table.columns[b].number ? 0 : out.widths[b]);
    });
    size_t& width = out.widths[*widest];
    if (!table.columns[*widest].number && width > kLeastText) {
      width -= std::min(excess, width - kLeastText);
    } else if (out.shown.size() > 2) {
      out.shown.erase(std::min_element(out.shown.begin(), out.shown.end(), lightest));
    } else {
      break;
    }
  }
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
    names.push_back(upper(column.name));
  }
  std::string out = text_block(table.title + ". " + table.about, columns, 0) + line(table, layout, names);
  for (const auto& row : table.rows) {
    out += line(table, layout, row);
  }
  if (table.rows.size() < table.all_rows) {
    out += text_block(fmt::format("{} of {} rows; --format json has all", table.rows.size(), table.all_rows),
                      columns, 0);
  }
  return out;
}

}  // namespace xpurun::launcher
