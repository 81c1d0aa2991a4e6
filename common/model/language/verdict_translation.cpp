#include "common/model/language/verdict_translation.h"

#include <nlohmann/json.hpp>

namespace xpurun::model {

nlohmann::ordered_json translation_json(const Verdict& spoken, base::Language language) {
  nlohmann::ordered_json j;
  j["language"] = base::name_of(language);
  j["sentence"] = spoken.sentence;
  j["headline"] = spoken.headline;
  j["evidence"] = spoken.evidence;
  j["next_text"] = spoken.next.text;
  j["next_command"] = spoken.next.command;
  return j;
}

std::optional<Verdict> translated(const Verdict& english, const nlohmann::json& j) {
  const auto words = j.is_object() ? j.find("translation") : j.end();
  if (!j.is_object() || words == j.end() || !words->is_object()) {
    return std::nullopt;
  }
  Verdict out = english;
  const auto read = [&words](const char* name, std::string& to) {
    const auto it = words->find(name);
    const bool is_text = it != words->end() && it->is_string();
    if (is_text) {
      to = it->get<std::string>();
    }
    return is_text;
  };
  const auto evidence = words->find("evidence");
  if (!read("sentence", out.sentence) || !read("headline", out.headline) ||
      !read("next_text", out.next.text) || !read("next_command", out.next.command) ||
      evidence == words->end() || !evidence->is_array()) {
    return std::nullopt;
  }
  out.evidence.clear();
  for (const nlohmann::json& line : *evidence) {
    if (!line.is_string()) {
      return std::nullopt;
    }
    out.evidence.push_back(line.get<std::string>());
  }
  return out;
}

}  // namespace xpurun::model
