#include "report/render/json.h"

#include "common/model/frame_text.h"

#include <nlohmann/json.hpp>

namespace xpurun::report {

namespace {

using nlohmann::ordered_json;

// Text of a traced process may hold any bytes; what is not UTF-8 is replaced.
std::string dump(const ordered_json& j, JsonLayout layout) {
  const int indent = layout == JsonLayout::indented ? 1 : -1;
  return j.dump(indent, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

ordered_json class_json(const StackClass& c) {
  ordered_json j;
  j["ranks"] = c.ranks.ranks();
  j["representative"] = c.representative;
  j["host"] = c.host;
  j["pid"] = c.pid;
  if (!c.missing.empty()) {
    j["missing"] = c.missing;
  }
  auto& frames = j["frames"] = ordered_json::array();
  for (const model::Frame& f : c.frames) {
    ordered_json frame;
    frame["kind"] = model::name_of(f.kind);
    frame["label"] = model::frame_label(f);
    frame["file"] = f.file;
    frame["line"] = f.line;
    frames.push_back(std::move(frame));
  }
  return j;
}

ordered_json rank_json(const RankRow& r) {
  ordered_json j;
  j["rank"] = r.rank;
  j["culprit"] = r.culprit;
  j["state"] = r.state;
  j["function"] = r.function;
  j["place"] = r.place;
  j["progress"] = r.progress;
  j["ending"] = r.ending;
  j["host"] = r.host;
  j["pid"] = r.pid;
  return j;
}

ordered_json dump_json(const DumpSummary& d) {
  ordered_json j;
  j["dir"] = d.dir;
  if (d.manifest) {
    j["why"] = d.manifest->why;
    j["at_s"] = d.manifest->at_s;
    j["spread_ns"] = d.manifest->spread_ns;
  }
  auto& processes = j["processes"] = ordered_json::array();
  for (const ProcessLine& p : d.processes) {
    ordered_json entry;
    entry["rank"] = p.rank == base::kNoRank ? ordered_json() : ordered_json(p.rank);
    entry["role"] = p.role;
    entry["host"] = p.host;
    entry["pid"] = p.pid;
    entry["status"] = p.status;
    entry["reason"] = p.reason;
    entry["pause_ns"] = p.pause_ns;
    entry["threads"] = p.threads;
    processes.push_back(std::move(entry));
  }
  return j;
}

}  // namespace

std::string report_json(const RunReport& report, JsonLayout layout) {
  ordered_json j;
  j["schema"] = kReportSchema;
  j["id"] = report.run.id;
  j["version"] = report.run.version;
  j["verdict"] = to_json(report.verdict);
  j["dump"] = report.dump;
  auto& classes = j["classes"] = ordered_json::array();
  for (const StackClass& c : report.classes) {
    classes.push_back(class_json(c));
  }
  auto& ranks = j["ranks"] = ordered_json::array();
  for (const RankRow& r : report.ranks) {
    ranks.push_back(rank_json(r));
  }
  auto& dumps = j["dumps"] = ordered_json::array();
  for (const DumpSummary& d : report.dumps) {
    dumps.push_back(dump_json(d));
  }
  auto& incidents = j["incidents"] = ordered_json::array();
  for (const model::Incident& i : report.run.incidents) {
    ordered_json entry;
    entry["n"] = i.n;
    entry["at_s"] = i.at_s;
    entry["cleared_s"] = i.cleared_s;
    entry["dump"] = i.dump;
    entry["sentence"] = i.verdict.sentence;
    incidents.push_back(std::move(entry));
  }
  auto& environment = j["environment"];
  environment["host"] = report.run.host;
  environment["cwd"] = report.run.cwd;
  environment["command"] = report.run.command;
  environment["outcome"] = report.run.outcome;
  environment["exit_status"] = report.run.exit_status;
  environment["elapsed_s"] = report.run.elapsed_s;
  environment["hang_timeout_s"] = report.run.hang_timeout_s;
  environment["world_size"] = report.run.world_size;
  environment["variables"] = report.run.env;
  j["notes"] = report.notes;
  return dump(j, layout);
}

std::string verdict_json(const model::Verdict& verdict) {
  return dump(to_json(verdict), JsonLayout::indented);
}

}  // namespace xpurun::report
