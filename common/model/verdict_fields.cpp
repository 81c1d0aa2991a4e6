#include "common/model/verdict_fields.h"

namespace xpurun::model {

std::string NextStep::line() const {
  return text.empty() ? command : command.empty() ? text : fmt::format("{}: {}", text, command);
}

nlohmann::ordered_json to_json(const Verdict& v) {
  return write_object(kVerdictSchema, v);
}

base::Result<Verdict> verdict_from_json(const nlohmann::json& j) {
  return read_object<Verdict>(kVerdictSchema, "verdict", j);
}

}  // namespace xpurun::model
