// The tables of `xpurun query`, from a run directory, a trace directory or a trace of another tool.
#pragma once

#include "common/base/result.h"
#include "report/query/database.h"
#include "report/speed/roles/communicator_links.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

struct RunTables {
  Database database;
  size_t rows = 0;       // of calls, spans and steps
  int64_t began_ns = 0;  // of which times are counted, since 1970
  CommunicatorLinks links;
  std::vector<base::Error> problems;  // files that are left out or damaged
};

// Reads the operands of `xpurun timeline`. Clocks of hosts are aligned as there. An error means that nothing
// could be read.
base::Result<RunTables> load_run_tables(const std::vector<std::string>& operands);

// A frequent question.
struct ReadyQuestion {
  std::string_view name;
  std::string_view about;
  std::string_view sql;
  std::string_view empty;  // why the answer may have no rows, and what to do
};
std::span<const ReadyQuestion> ready_questions();

}  // namespace xpurun::report
