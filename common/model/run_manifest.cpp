#include "common/model/run_manifest.h"

#include "common/base/io.h"
#include "common/base/strings.h"
#include "common/model/json_fields.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace xpurun::model {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

ordered_json death_json(const Death& d) {
  ordered_json j;
  j["order"] = d.order;
  j["at_s"] = d.at_s;
  j["wait_status"] = d.wait_status;
  j["cause_hint"] = d.cause_hint;
  j["follower"] = d.follower;
  return j;
}

Death death_from(const json& j) {
  return {.happened = true,
          .order = integer(j, "order", 0),
          .at_s = j.value("at_s", 0.0),
          .wait_status = integer(j, "wait_status", -1),
          .cause_hint = j.value("cause_hint", ""),
          .follower = j.value("follower", false)};
}

ordered_json process_json(const ProcessRecord& p) {
  ordered_json j;
  j["pid"] = p.pid;
  j["ppid"] = p.ppid;
  j["start_ticks"] = p.start_ticks;
  j["role"] = p.role;
  j["rank"] = rank_or_null(p.rank);
  j["local_rank"] = p.local_rank;
  j["identity"] = p.identity;
  j["comm"] = p.comm;
  j["cmdline"] = p.cmdline;
  j["python"] = p.python;
  j["preload"] = p.preload;
  j["seen_s"] = p.seen_s;
  j["function"] = p.function;
  j["file"] = p.file;
  j["line"] = p.line;
  j["last_progress_s"] = p.last_progress_s;
  if (p.death.happened) {
    j["death"] = death_json(p.death);
  }
  return j;
}

ProcessRecord process_from(const json& j) {
  ProcessRecord p;
  p.pid = integer(j, "pid", 0);
  p.ppid = integer(j, "ppid", 0);
  p.start_ticks = integer(j, "start_ticks", uint64_t{0});
  p.role = j.value("role", "");
  p.rank = integer(j, "rank", base::kNoRank);
  p.local_rank = integer(j, "local_rank", -1);
  p.identity = j.value("identity", "");
  p.comm = j.value("comm", "");
  p.cmdline = j.value("cmdline", std::vector<std::string>());
  p.python = j.value("python", false);
  p.preload = j.value("preload", false);
  p.seen_s = j.value("seen_s", 0.0);
  p.function = j.value("function", "");
  p.file = j.value("file", "");
  p.line = integer(j, "line", 0);
  p.last_progress_s = j.value("last_progress_s", 0.0);
  if (j.contains("death")) {
    p.death = death_from(j["death"]);
  }
  return p;
}

ordered_json crash_json(const CrashNotice& c) {
  ordered_json j;
  j["pid"] = c.pid;
  j["tid"] = c.tid;
  j["rank"] = rank_or_null(c.rank);
  j["signal"] = c.signal;
  j["code"] = c.code;
  j["address"] = fmt::format("{:#x}", c.address);
  j["sender"] = c.sender;
  j["at_s"] = c.at_s;
  j["dump"] = c.dump;
  return j;
}

CrashNotice crash_from(const json& j) {
  CrashNotice c;
  c.pid = integer(j, "pid", 0);
  c.tid = integer(j, "tid", 0);
  c.rank = integer(j, "rank", base::kNoRank);
  c.signal = integer(j, "signal", 0);
  c.code = integer(j, "code", 0);
  c.address = std::strtoull(j.value("address", "0").c_str(), nullptr, 16);
  c.sender = integer(j, "sender", 0);
  c.at_s = j.value("at_s", 0.0);
  c.dump = j.value("dump", "");
  return c;
}

}  // namespace

ordered_json to_json(const RunManifest& r) {
  ordered_json j;
  j["schema"] = kRunSchema;
  j["version"] = r.version;
  j["id"] = r.id;
  j["host"] = r.host;
  j["started"] = base::utc_iso8601(r.started_wall_ns);
  j["started_wall_ns"] = r.started_wall_ns;
  j["elapsed_s"] = r.elapsed_s;
  j["command"] = r.command;
  j["cwd"] = r.cwd;
  j["supervisor_pid"] = r.supervisor_pid;
  j["main_pid"] = r.main_pid;
  j["hang_timeout_s"] = r.hang_timeout_s;
  j["preload"] = {{"path", r.preload_path}, {"reason", r.preload_reason}};
  j["world_size"] = r.world_size;
  j["outcome"] = r.outcome;
  j["child_status"] = r.child_status;
  j["exit_status"] = r.exit_status;
  j["control"] = r.control;
  j["control_url"] = r.control_url;
  j["metrics"] = r.metrics;
  j["verdict"] = to_json(r.verdict);
  auto& processes = j["processes"] = ordered_json::array();
  for (const auto& p : r.processes) {
    processes.push_back(process_json(p));
  }
  auto& crashes = j["crashes"] = ordered_json::array();
  for (const auto& c : r.crashes) {
    crashes.push_back(crash_json(c));
  }
  auto& incidents = j["incidents"] = ordered_json::array();
  for (const auto& i : r.incidents) {
    ordered_json e;
    e["n"] = i.n;
    e["at_s"] = i.at_s;
    e["cleared_s"] = i.cleared_s;
    e["dump"] = i.dump;
    e["verdict"] = to_json(i.verdict);
    incidents.push_back(std::move(e));
  }
  auto& dumps = j["dumps"] = ordered_json::array();
  for (const auto& d : r.dumps) {
    ordered_json e;
    e["n"] = d.n;
    e["why"] = d.why;
    e["dir"] = d.dir;
    e["at_s"] = d.at_s;
    dumps.push_back(std::move(e));
  }
  auto& options = j["options"] = ordered_json::array();
  for (const auto& o : r.options) {
    options.push_back({{"name", o.name}, {"value", o.value}, {"source", o.source}});
  }
  j["env"] = r.env;
  j["env_names"] = r.env_names;
  return j;
}

base::Result<RunManifest> run_manifest_from_json(const json& j) {
  try {
    if (j.value("schema", "") != kRunSchema) {
      return base::fail(fmt::format("schema is '{}', expected '{}'", j.value("schema", ""), kRunSchema));
    }
    RunManifest r;
    r.version = j.value("version", "");
    r.id = j.value("id", "");
    r.host = j.value("host", "");
    r.started_wall_ns = integer(j, "started_wall_ns", int64_t{0});
    r.elapsed_s = j.value("elapsed_s", 0.0);
    r.command = j.value("command", std::vector<std::string>());
    r.cwd = j.value("cwd", "");
    r.env = j.value("env", std::map<std::string, std::string>());
    r.env_names = j.value("env_names", std::vector<std::string>());
    for (const json& o : j.value("options", json::array())) {
      r.options.push_back({o.value("name", ""), o.value("value", ""), o.value("source", "")});
    }
    r.supervisor_pid = integer(j, "supervisor_pid", 0);
    r.main_pid = integer(j, "main_pid", 0);
    r.hang_timeout_s = j.value("hang_timeout_s", 0.0);
    const json preload = j.value("preload", json::object());
    r.preload_path = preload.value("path", "");
    r.preload_reason = preload.value("reason", "");
    r.world_size = integer(j, "world_size", 0);
    r.outcome = j.value("outcome", "running");
    r.child_status = integer(j, "child_status", -1);
    r.exit_status = integer(j, "exit_status", -1);
    r.control = j.value("control", "");
    r.control_url = j.value("control_url", "");
    r.metrics = j.value("metrics", "");
    for (const json& p : j.value("processes", json::array())) {
      r.processes.push_back(process_from(p));
    }
    for (const json& c : j.value("crashes", json::array())) {
      r.crashes.push_back(crash_from(c));
    }
    for (const json& e : j.value("incidents", json::array())) {
      Incident i{.n = integer(e, "n", 0),
                 .at_s = e.value("at_s", 0.0),
                 .cleared_s = e.value("cleared_s", -1.0),
                 .dump = e.value("dump", "")};
      if (auto v = verdict_from_json(e.value("verdict", json::object()))) {
        i.verdict = std::move(*v);
      }
      r.incidents.push_back(std::move(i));
    }
    for (const json& e : j.value("dumps", json::array())) {
      r.dumps.push_back({.n = integer(e, "n", 0),
                         .why = e.value("why", ""),
                         .dir = e.value("dir", ""),
                         .at_s = e.value("at_s", 0.0)});
    }
    if (auto v = verdict_from_json(j.value("verdict", json::object()))) {
      r.verdict = std::move(*v);
    }
    return r;
  } catch (const json::exception& e) {
    return base::fail(fmt::format("malformed run manifest: {}", e.what()));
  }
}

base::Result<RunManifest> load_run_manifest(const std::string& path) {
  XPURUN_TRY_ASSIGN(const std::string text, base::read_file(path));
  const json j = parse_json(text);
  if (j.is_discarded()) {
    return base::fail(fmt::format("{}: not valid JSON (truncated?)", path));
  }
  auto r = run_manifest_from_json(j);
  if (!r) {
    return base::fail(std::move(r.error()).context(path));
  }
  return r;
}

}  // namespace xpurun::model
