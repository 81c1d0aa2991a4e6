#include "report/render/json.h"

#include "common/base/strings.h"
#include "common/model/frame_text.h"
#include "common/model/json/json_text.h"
#include "common/model/json_fields.h"
#include "report/render/json_access.h"
#include "report/run/findings.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace xpurun::report {

namespace {

using nlohmann::ordered_json;

// More merged stacks than this are in the folded files only.
constexpr size_t kMaxStacks = 2000;

// Text of a traced process may hold any bytes; what is not UTF-8 is replaced.
std::string dump(const ordered_json& j, JsonLayout layout) {
  const int indent = layout == JsonLayout::indented ? 1 : -1;
  return model::json_text(j, indent) + "\n";
}

ordered_json class_json(const StackClass& c) {
  ordered_json j;
  j["ranks"] = c.ranks.text();
  j["count"] = c.ranks.size();
  j["representative"] = c.representative;
  j["host"] = c.host;
  j["pid"] = c.pid;
  if (!c.missing.empty()) {
    j["missing"] = c.missing;
  }
  j["telling"] = shown_frames(c.frames, kShownFrames);
  auto& frames = j["frames"] = ordered_json::array();
  for (const model::Frame& f : c.frames) {
    ordered_json frame;
    frame["kind"] = model::name_of(f.kind);
    frame["label"] = model::frame_label(f);
    frame["file"] = f.file;
    frame["line"] = f.line;
    if (!f.callee.empty()) {
      frame["callee"] = f.callee;
    }
    if (const auto it = c.source.find(&f - c.frames.data()); it != c.source.end()) {
      frame["source"] = it->second;
    }
    frames.push_back(std::move(frame));
  }
  return j;
}

ordered_json node_json(const NodeRow& n) {
  ordered_json j;
  j["node"] = n.name;
  j["host"] = n.host;
  j["ranks"] = n.ranks.text();
  j["culprit"] = n.culprit;
  j["states"] = n.states;
  j["status"] = std::string(name_of(n.status));
  j["gap"] = n.gap;
  j["clock"] = n.clock;
  return j;
}

ordered_json rank_json(const RankRow& r) {
  ordered_json j;
  j["rank"] = r.rank;
  j["culprit"] = r.culprit;
  j["state"] = r.state;
  j["host"] = r.host;
  j["pid"] = r.pid;
  j["function"] = r.function;
  j["place"] = r.place;
  j["progress"] = r.progress;
  j["ending"] = r.ending;
  return j;
}

ordered_json dump_json(const DumpSummary& d) {
  ordered_json j;
  j["dir"] = d.dir;
  if (d.manifest) {
    j["why"] = std::string(name_of(d.manifest->why));
    j["at_s"] = d.manifest->at_s;
    j["spread_ns"] = d.manifest->spread_ns;
  }
  auto& processes = j["processes"] = ordered_json::array();
  for (const ProcessLine& p : d.processes) {
    ordered_json entry;
    entry["rank"] = model::rank_or_null(p.rank);
    entry["role"] = std::string(name_of(p.role));
    entry["host"] = p.host;
    entry["pid"] = p.pid;
    entry["status"] = std::string(name_of(p.status));
    entry["reason"] = p.reason;
    entry["pause_ns"] = p.pause_ns;
    entry["threads"] = p.threads;
    processes.push_back(std::move(entry));
  }
  return j;
}

ordered_json excerpt_json(const SourceExcerpt& e) {
  ordered_json j;
  j["function"] = e.function;
  j["file"] = e.file;
  j["line"] = e.line;
  j["changed"] = e.changed;
  auto& lines = j["lines"] = ordered_json::array();
  for (const model::SourceLine& l : e.lines) {
    lines.push_back({{"number", l.number}, {"text", l.text}});
  }
  return j;
}

ordered_json traceback_json(const Traceback& t) {
  ordered_json j;
  j["title"] = t.title;
  j["text"] = t.text;
  return j;
}

ordered_json finding_json(const Finding& f) {
  ordered_json j;
  j["severity"] = model::name_of(f.severity);
  j["id"] = f.id;
  j["title"] = f.title;
  j["evidence"] = f.evidence;
  j["next"] = f.next;
  j["command"] = f.command;
  return j;
}

ordered_json stall_json(const model::Stall& i) {
  ordered_json j;
  j["n"] = i.n;
  j["at_s"] = i.at_s;
  j["since_s"] = i.since_s;
  j["cleared_s"] = i.cleared_s;
  j["dump"] = i.dump;
  j["sentence"] = i.verdict.sentence;
  return j;
}

ordered_json environment_json(const model::RunManifest& run) {
  ordered_json j;
  j["host"] = run.host;
  j["cwd"] = run.cwd;
  j["command"] = run.command;
  j["outcome"] = std::string(name_of(run.outcome));
  j["started_wall_ns"] = run.started_wall_ns;
  j["exit_status"] = run.exit_status;
  j["elapsed_s"] = run.elapsed_s;
  j["hang_timeout_s"] = run.hang_timeout_s;
  j["world_size"] = run.world_size;
  j["variables"] = run.env;
  j["other_variables"] = run.env_names;
  return j;
}

// Where stacks of one role end in the merged tree, with the path to there.
void add_ends(const RoleTree& role, const FrameTable& frames, ordered_json& list, size_t& left_out) {
  const FrameTree& tree = role.tree(Layer::merged);
  std::vector<std::string> path;
  const auto visit = [&](const auto& self, FrameTree::NodeId id) -> void {
    const FrameTree::Node& node = tree[id];
    if (node.self.weight() > 0) {
      if (list.size() >= kMaxStacks) {
        ++left_out;
      } else {
        ordered_json j;
        j["process"] = std::string(name_of(role.process));
        j["thread"] = role.thread;
        j["ranks"] = node.self.ranks.text();
        j["processes"] = node.self.weight();
        j["threads"] = node.self.threads;
        j["frames"] = path;
        list.push_back(std::move(j));
      }
    }
    for (FrameTree::NodeId child : node.children) {
      path.push_back(frames[tree[child].frame].label);
      self(self, child);
      path.pop_back();
    }
  };
  visit(visit, FrameTree::kRoot);
}

ordered_json stacks_json(const StackForest& forest) {
  ordered_json j;
  size_t left_out = 0;
  auto& list = j["merged"] = ordered_json::array();
  for (const RoleTree* role : forest.roles()) {
    add_ends(*role, forest.frames(), list, left_out);
  }
  j["left_out"] = left_out;
  return j;
}

template <typename T, typename F>
void put_json_list(ordered_json& to, const std::vector<T>& from, F&& one) {
  to = ordered_json::array();
  for (const T& item : from) {
    to.push_back(one(item));
  }
}

}  // namespace

std::string report_json(const RunReport& report, JsonLayout layout) {
  ordered_json j;
  j["schema"] = kReportSchema;
  j["id"] = report.run.id;
  j["version"] = report.run.version;
  j["verdict"] = to_json(report.verdict);
  put_json_list(j["source"], report.source, excerpt_json);
  put_json_list(j["tracebacks"], report.tracebacks.shown, traceback_json);
  put_json_list(j["findings"], report.findings, finding_json);
  if (!report.nodes.empty()) {
    put_json_list(j["nodes"], report.nodes, node_json);
  }
  put_json_list(j["ranks"], report.ranks, rank_json);
  if (!report.gpus.devices.empty()) {
    j["gpus"] = to_json(report.gpus)["devices"];
  }
  if (report.speed) {
    j["speed"] = to_json(*report.speed);
  }
  if (report.pipeline) {
    j["pipeline"] = to_json(*report.pipeline);
  }
  put_json_list(j["classes"], report.classes, class_json);
  j["dump"] = report.dump;
  j["stacks"] = stacks_json(report.forest);
  put_json_list(j["dumps"], report.dumps, dump_json);
  put_json_list(j["stalls"], report.run.stalls, stall_json);
  j["environment"] = environment_json(report.run);
  j["notes"] = report.notes;
  return dump(j, layout);
}

base::Result<nlohmann::json> parse_report(std::string_view text) {
  using nlohmann::json;
  json report = model::parse_json(text);
  if (!report.is_object() || text_of(report, "schema") != kReportSchema) {
    return base::fail(base::Error{
        .what = "the data is not a report that this xpurun can read",
        .id = "E-NO-DATA",
        .cause = report.is_object()
                     ? fmt::format("its schema is “{}”, not “{}”",
                                   base::elide_middle(text_of(report, "schema"), 40), kReportSchema)
                     : std::string("it is not JSON"),
        .hint = "use the version of xpurun that the page's last lines name"});
  }
  return report;
}

std::string verdict_json(const model::Verdict& verdict) {
  return dump(to_json(verdict), JsonLayout::indented);
}

}  // namespace xpurun::report
