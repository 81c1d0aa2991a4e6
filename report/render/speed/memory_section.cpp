#include "report/render/speed/memory_section.h"

#include "report/memory/memory_report.h"

#include <kainjow/mustache.hpp>

#include <algorithm>

namespace xpurun::report {

using kainjow::mustache::data;

void put_memory(PageData& page, const RunReport& report, const PageLimits& limits) {
  const MemoryReport memory = memory_report(report.memory);
  page.set("has_memory", !memory.looks.empty());
  if (memory.looks.empty()) {
    return;
  }
  constexpr size_t kMostLines = 20;
  std::vector<std::string> lines = look_lines(memory);
  lines.resize(std::min(lines.size(), kMostLines));
  std::transform(lines.begin(), lines.end(), lines.begin(), capitalized);
  put_list(page, "memory_lines", string_list(lines));
  data tables{data::type::list};
  for (const TextTable& table : memory_tables(memory, limits.rows)) {
    data one = table_data(table);
    one.set("title", capitalized(table.title));
    tables.push_back(one);
  }
  put_list(page, "memory_tables", tables);
}

}  // namespace xpurun::report
