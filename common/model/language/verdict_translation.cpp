#include "common/model/language/verdict_translation.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace xpurun::model {

nlohmann::ordered_json translation_json(const Verdict& spoken, base::Language language) {
  nlohmann::ordered_json j;
  j["language"] = base::name_of(language);
  j["sentence"] = spoken.sentence;
  j["headline"] = spoken.headline;
  j["title"] = spoken.title;
  j["evidence"] = spoken.evidence;
  j["details"] = spoken.details;
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
  const auto read_lines = [&words](const char* name, std::vector<std::string>& to) {
    const auto it = words->find(name);
    const bool lines = it != words->end() && it->is_array() &&
                       std::all_of(it->begin(), it->end(), [](const auto& line) { return line.is_string(); });
    if (lines) {
      to = it->template get<std::vector<std::string>>();
    }
    return lines;
  };
  if (!read("sentence", out.sentence) || !read("headline", out.headline) ||
      !read("next_text", out.next.text) || !read("next_command", out.next.command) ||
      !read_lines("evidence", out.evidence)) {
    return std::nullopt;
  }
  read("title", out.title);
  read_lines("details", out.details);
  return out;
}

}  // namespace xpurun::model
