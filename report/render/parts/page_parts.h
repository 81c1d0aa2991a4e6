// Fills the lists of templates/report.mustache; html.cpp does the rest of it.
#pragma once

#include "report/operations/tables/text_tables.h"
#include "report/run/run_report.h"
#include "templates/templates.h"

#include <string>
#include <vector>

namespace kainjow::mustache {
template <typename string_type>
class basic_data;
}

namespace xpurun::report {

using PageData = kainjow::mustache::basic_data<std::string>;

// The limits of the page's lists. The page states how much was cut.
struct PageLimits {
  size_t rows = 2000;  // of ranks, and of the processes of a dump
  size_t classes = 60;
  size_t frames = 400;       // of one class
  size_t tree_lines = 2000;  // of one text tree
  size_t boxes = 700;        // of the static picture
  size_t nodes = 150'000;    // of the stacks from which scripts draw
  bool picture = true;       // the calls over time
};

// A list, and "has_<name>" beside it, because an empty list cannot hide its heading.
void put_list(PageData& to, const std::string& name, const PageData& list);
// Text that hides its section when it is empty. Never left unset: a name that is not there is looked for
// outside of the list.
void put_text(PageData& to, const std::string& name, const std::string& text);
// "0-1, 3": a browser breaks lines at spaces only.
std::string spaced_ranks(const model::RankSet& ranks);
// "find out" becomes "Find out".
std::string capitalized(std::string text);
// Columns, rows and the number of omitted rows, for a template of a table.
PageData table_data(const TextTable& table);
PageData string_list(const std::vector<std::string>& lines);
// The <script> elements, and the sources of the policy that allow these alone.
void put_scripts(PageData& page, const std::vector<templates::Script>& scripts);
PageData pair_data(const std::string& key, const std::string& value);

void put_tables(PageData& page, const RunReport& report, const PageLimits& limits);

}  // namespace xpurun::report
