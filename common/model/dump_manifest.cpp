#include "common/model/dump_manifest.h"

#include "common/base/io.h"
#include "common/model/json_fields.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace xpurun::model {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

constexpr std::array kLives = {HelperLife::still, HelperLife::stirring, HelperLife::working};
constexpr std::array kOutside = {OutsideWait::none,  OutsideWait::input,  OutsideWait::connection,
                                 OutsideWait::event, OutsideWait::signal, OutsideWait::polling,
                                 OutsideWait::child};

// The first where the name is not known: files of a later version.
template <typename Enum, size_t N>
Enum named(const std::array<Enum, N>& all, std::string_view name) {
  const auto it = std::find_if(all.begin(), all.end(), [&](Enum e) { return name_of(e) == name; });
  return it == all.end() ? all.front() : *it;
}

ordered_json helper_json(const HelperObservation& h) {
  ordered_json j;
  j["pid"] = h.pid;
  j["name"] = h.name;
  j["python"] = h.python;
  j["awaited"] = h.awaited;
  j["life"] = name_of(h.life);
  j["still_s"] = h.still_s;
  j["cpu_share"] = h.cpu_share;
  j["function"] = h.function;
  j["file"] = h.file;
  j["line"] = h.line;
  return j;
}

HelperObservation helper_from(const json& j) {
  return {.pid = integer(j, "pid", 0),
          .name = j.value("name", ""),
          .python = j.value("python", false),
          .awaited = j.value("awaited", false),
          .life = named(kLives, j.value("life", "")),
          .still_s = j.value("still_s", 0.0),
          .cpu_share = j.value("cpu_share", 0.0),
          .function = j.value("function", ""),
          .file = j.value("file", ""),
          .line = integer(j, "line", 0)};
}

ordered_json observation_json(const RankObservation& o) {
  ordered_json j;
  j["rank"] = rank_or_null(o.rank);
  j["pid"] = o.pid;
  j["host"] = o.host;
  j["alive"] = o.alive;
  if (!o.alive) {
    j["exited_ok"] = o.exited_ok;
    j["wait_status"] = o.wait_status;
    j["dead_s"] = o.dead_s;
  }
  j["state"] = std::string(1, o.state);
  j["has_python"] = o.has_python;
  j["still_s"] = o.still_s;
  j["cpu_share"] = o.cpu_share;
  j["main_cpu_share"] = o.main_cpu_share;
  j["io_bytes_per_s"] = o.io_bytes_per_s;
  j["window_s"] = o.window_s;
  j["function"] = o.function;
  j["file"] = o.file;
  j["line"] = o.line;
  if (o.helper_life != HelperLife::still) {
    j["helper_life"] = name_of(o.helper_life);
  }
  if (o.outside != OutsideWait::none) {
    j["outside"] = name_of(o.outside);
  }
  if (!o.helpers.empty()) {
    auto& helpers = j["helpers"] = ordered_json::array();
    for (const HelperObservation& h : o.helpers) {
      helpers.push_back(helper_json(h));
    }
  }
  return j;
}

RankObservation observation_from(const json& j) {
  RankObservation o;
  o.rank = integer(j, "rank", base::kNoRank);
  o.pid = integer(j, "pid", 0);
  o.host = j.value("host", "");
  o.alive = j.value("alive", true);
  o.exited_ok = j.value("exited_ok", false);
  o.wait_status = integer(j, "wait_status", 0);
  o.dead_s = j.value("dead_s", 0.0);
  const std::string state = j.value("state", "?");
  o.state = state.empty() ? '?' : state[0];
  o.has_python = j.value("has_python", false);
  o.still_s = j.value("still_s", 0.0);
  o.cpu_share = j.value("cpu_share", 0.0);
  o.main_cpu_share = j.value("main_cpu_share", 0.0);
  o.io_bytes_per_s = j.value("io_bytes_per_s", 0.0);
  o.window_s = j.value("window_s", 0.0);
  o.function = j.value("function", "");
  o.file = j.value("file", "");
  o.line = integer(j, "line", 0);
  o.helper_life = named(kLives, j.value("helper_life", ""));
  o.outside = named(kOutside, j.value("outside", ""));
  for (const json& h : j.value("helpers", json::array())) {
    o.helpers.push_back(helper_from(h));
  }
  return o;
}

}  // namespace

std::string_view name_of(HelperLife life) {
  switch (life) {
    case HelperLife::still:
      return "still";
    case HelperLife::stirring:
      return "stirring";
    case HelperLife::working:
      break;
  }
  return "working";
}

std::string_view name_of(OutsideWait wait) {
  switch (wait) {
    case OutsideWait::none:
      return "none";
    case OutsideWait::input:
      return "input";
    case OutsideWait::connection:
      return "connection";
    case OutsideWait::event:
      return "event";
    case OutsideWait::signal:
      return "signal";
    case OutsideWait::polling:
      return "polling";
    case OutsideWait::child:
      break;
  }
  return "child";
}

ordered_json to_json(const DumpManifest& d) {
  ordered_json j;
  j["schema"] = kDumpSchema;
  j["n"] = d.n;
  j["why"] = d.why;
  j["host"] = d.host;
  j["wall_ns"] = d.wall_ns;
  j["at_s"] = d.at_s;
  j["hang_timeout_s"] = d.hang_timeout_s;
  j["escalated"] = d.escalated;
  if (d.idle_counts) {
    j["idle_counts"] = true;
  }
  j["spread_ns"] = d.spread_ns;
  j["trigger_rank"] = rank_or_null(d.trigger_rank);
  auto& processes = j["processes"] = ordered_json::array();
  for (const DumpedProcess& p : d.processes) {
    ordered_json e;
    e["pid"] = p.pid;
    e["rank"] = rank_or_null(p.rank);
    e["role"] = p.role;
    e["status"] = p.status;
    e["reason"] = p.reason;
    e["pause_ns"] = p.pause_ns;
    e["file"] = p.file;
    processes.push_back(std::move(e));
  }
  auto& ranks = j["ranks"] = ordered_json::array();
  for (const RankObservation& o : d.ranks) {
    ranks.push_back(observation_json(o));
  }
  return j;
}

base::Result<DumpManifest> dump_manifest_from_json(const json& j) {
  try {
    if (j.value("schema", "") != kDumpSchema) {
      return base::fail(fmt::format("schema is '{}', expected '{}'", j.value("schema", ""), kDumpSchema));
    }
    DumpManifest d;
    d.n = integer(j, "n", 0);
    d.why = j.value("why", "");
    d.host = j.value("host", "");
    d.wall_ns = integer(j, "wall_ns", int64_t{0});
    d.at_s = j.value("at_s", 0.0);
    d.hang_timeout_s = j.value("hang_timeout_s", 0.0);
    d.escalated = j.value("escalated", false);
    d.idle_counts = j.value("idle_counts", false);
    d.spread_ns = integer(j, "spread_ns", int64_t{0});
    d.trigger_rank = integer(j, "trigger_rank", base::kNoRank);
    for (const json& e : j.value("processes", json::array())) {
      d.processes.push_back({.pid = integer(e, "pid", 0),
                             .rank = integer(e, "rank", base::kNoRank),
                             .role = e.value("role", ""),
                             .status = e.value("status", ""),
                             .reason = e.value("reason", ""),
                             .pause_ns = integer(e, "pause_ns", int64_t{0}),
                             .file = e.value("file", "")});
    }
    for (const json& e : j.value("ranks", json::array())) {
      d.ranks.push_back(observation_from(e));
    }
    return d;
  } catch (const json::exception& e) {
    return base::fail(fmt::format("malformed dump manifest: {}", e.what()));
  }
}

base::Result<DumpManifest> load_dump_manifest(const std::string& path) {
  XPURUN_TRY_ASSIGN(const std::string text, base::read_regular_file(path));
  const json j = parse_json(text);
  if (j.is_discarded()) {
    return base::fail(fmt::format("{}: not valid JSON (truncated?)", path));
  }
  auto d = dump_manifest_from_json(j);
  if (!d) {
    return base::fail(std::move(d.error()).context(path));
  }
  return d;
}

}  // namespace xpurun::model
