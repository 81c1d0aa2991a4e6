// The words of a verdict in a language other than English, beside the English verdict: the member
// "translation" in the output of `xpurun report --json`. Files have no such member: a reader of files can
// have the verdict made again.
#pragma once

#include "common/base/language.h"
#include "common/model/verdict.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>

namespace xpurun::model {

// Sentence, headline, title, evidence, details and next step of `spoken`.
nlohmann::ordered_json translation_json(const Verdict& spoken, base::Language language);

// `english` with the words of the member "translation" of `j`; empty without one, or if it is damaged.
std::optional<Verdict> translated(const Verdict& english, const nlohmann::json& j);

}  // namespace xpurun::model
