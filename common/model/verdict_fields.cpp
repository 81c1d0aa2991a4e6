#include "common/model/verdict_fields.h"

#include "common/base/tr.h"

namespace xpurun::model {

std::string NextStep::line() const {
  return text.empty() ? command : command.empty() ? text : base::tr("{}: {}", text, command);
}

std::string_view heading_word(const Verdict& v) {
  const bool stall = v.kind == VerdictKind::hang && v.level == VerdictLevel::suspected;
  return stall ? base::later("stall") : name_of(v.kind);
}

void say(Verdict& v, std::string headline) {
  v.headline = base::tidied(std::move(headline));
  // That nothing happened needs no heading.
  v.sentence =
      v.kind == VerdictKind::none ? v.headline : base::tr("{}: {}", base::tr(heading_word(v)), v.headline);
}

nlohmann::ordered_json to_json(const Verdict& v) {
  return write_object(kVerdictSchema, v);
}

base::Result<Verdict> verdict_from_json(const nlohmann::json& j) {
  return read_object<Verdict>(kVerdictSchema, "verdict", j);
}

}  // namespace xpurun::model
