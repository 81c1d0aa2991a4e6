#include "common/model/verdict.h"

#include "common/model/json_fields.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace xpurun::model {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

ordered_json location_json(const CodeLocation& where) {
  ordered_json j;
  j["function"] = where.function;
  j["file"] = where.file;
  j["line"] = where.line;
  j["callee"] = where.callee;
  return j;
}

CodeLocation location_from(const json& j) {
  return {.function = j.value("function", ""),
          .file = j.value("file", ""),
          .line = integer(j, "line", 0),
          .callee = j.value("callee", "")};
}

RankSet ranks_from(const json& j) {
  RankSet out;
  for (const json& r : j) {
    out.insert(to_integer<base::Rank>(r));
  }
  return out;
}

}  // namespace

std::string NextStep::line() const {
  return text.empty() ? command : command.empty() ? text : fmt::format("{}: {}", text, command);
}

ordered_json to_json(const Verdict& v) {
  ordered_json j;
  j["schema"] = kVerdictSchema;
  j["id"] = v.id;
  j["kind"] = v.kind;
  j["level"] = v.level;
  j["ranks"] = v.ranks.ranks();
  j["state"] = v.state;
  j["host"] = v.host;
  j["pid"] = v.pid;
  if (v.signal != 0) {
    j["signal"] = v.signal;
  }
  if (v.exit_code >= 0) {
    j["exit_code"] = v.exit_code;
  }
  j["sentence"] = v.sentence;
  j["where"] = location_json(v.where);
  auto& waiting = j["waiting"] = ordered_json::array();
  for (const Waiting& w : v.waiting) {
    ordered_json entry;
    entry["ranks"] = w.ranks.ranks();
    entry["what"] = w.what;
    entry["where"] = location_json(w.where);
    waiting.push_back(std::move(entry));
  }
  j["seconds"] = v.seconds;
  j["dump"] = v.dump;
  j["confidence"] = v.confidence;
  j["evidence"] = v.evidence;
  // "next" is for people and for readers of older versions, the other two are its parts.
  j["next"] = v.next.line();
  j["next_text"] = v.next.text;
  j["next_command"] = v.next.command;
  return j;
}

base::Result<Verdict> verdict_from_json(const json& j) {
  try {
    if (j.value("schema", "") != kVerdictSchema) {
      return base::fail(fmt::format("schema is '{}', expected '{}'", j.value("schema", ""), kVerdictSchema));
    }
    Verdict v;
    v.id = j.value("id", "");
    v.kind = j.value("kind", "none");
    v.level = j.value("level", "");
    v.ranks = ranks_from(j.value("ranks", json::array()));
    v.state = j.value("state", "");
    v.host = j.value("host", "");
    v.pid = integer(j, "pid", 0);
    v.signal = integer(j, "signal", 0);
    v.exit_code = integer(j, "exit_code", -1);
    v.sentence = j.value("sentence", "");
    v.where = location_from(j.value("where", json::object()));
    for (const json& w : j.value("waiting", json::array())) {
      v.waiting.push_back({.ranks = ranks_from(w.value("ranks", json::array())),
                           .what = w.value("what", ""),
                           .where = location_from(w.value("where", json::object()))});
    }
    v.seconds = j.value("seconds", 0.0);
    v.dump = j.value("dump", "");
    v.confidence = j.value("confidence", "");
    v.evidence = j.value("evidence", std::vector<std::string>());
    // A file of an older version has no parts.
    v.next = {.text = j.value("next_text", j.contains("next_command") ? "" : j.value("next", "")),
              .command = j.value("next_command", "")};
    return v;
  } catch (const json::exception& e) {
    return base::fail(fmt::format("malformed verdict: {}", e.what()));
  }
}

}  // namespace xpurun::model
