#include "common/model/json/json_text.h"
#include "common/model/stacks/stack_file.h"
#include "report/formats/formats.h"

#include <nlohmann/json.hpp>

namespace xpurun::report {

std::string stack_set_json(const StackSet& set) {
  using Json = nlohmann::ordered_json;
  Json j;
  j["schema"] = kStackSetSchema;
  j["about"] = set.about;
  j["notes"] = set.notes;
  Json& processes = j["processes"] = Json::array();
  for (const model::ProcessStacks& p : set.processes()) {
    processes.push_back(to_json(p));
  }
  // Processes that have a name but no thread: failed dumps, dead ranks.
  for (const ProcessLine& line : set.collected.processes) {
    if (line.threads == 0) {
      model::ProcessStacks p;
      p.host = line.host;
      p.pid = line.pid;
      p.rank = line.rank;
      p.role = line.role;
      p.status = model::DumpStatus::failed;
      p.reason = model::reason_or_status(line.reason, line.status);
      processes.push_back(to_json(p));
    }
  }
  return model::json_text(j, 1) + '\n';
}

}  // namespace xpurun::report
