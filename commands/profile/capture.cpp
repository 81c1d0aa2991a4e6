// xpurun capture: where do the ranks of a live run spend their time? The supervisor of the run captures.
#include "commands/analyze/capture_text.h"
#include "commands/commands.h"
#include "commands/profile/captured_nodes.h"
#include "common/base/output/terminal.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/json/json_text.h"
#include "common/model/json_fields.h"
#include "common/model/run_dir.h"
#include "common/model/run_manifest.h"
#include "launcher/control/control_client.h"
#include "launcher/options/exit_status.h"
#include "launcher/options/run_settings.h"
#include "launcher/output/text_block.h"
#include "report/build/capture_files.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

constexpr double kLongestS = 400;  // the longest capture, and the time to write it
constexpr double kListS = 12;
constexpr size_t kShownOfCapture = 30;

base::Result<nlohmann::ordered_json> request_from(const Settings& settings) {
  for (const auto& [name, s] : settings.all()) {
    if (const auto checked = check_value(*find_option(capture_options(), name), s.value); !checked) {
      return base::fail(base::Error(checked.error()).context("--" + name));
    }
  }
  const auto text = [&](const char* name) {
    const Setting* s = settings.find(name);
    return s != nullptr ? s->value : std::string(find_option(capture_options(), name)->default_text);
  };
  nlohmann::ordered_json out{{"cmd", "capture"}, {"rate", base::parse_int(text("rate")).value_or(0)}};
  if (settings.has("steps")) {
    if (settings.has("duration")) {
      return base::fail(base::cli_text("give --steps or --duration, not both"));
    }
    out["steps"] = base::parse_int(text("steps")).value_or(-1);
  } else {
    out["duration_s"] = base::parse_duration_s(text("duration")).value_or(-1);
  }
  if (const Setting* ranks = settings.find("ranks")) {
    const auto parsed = model::RankSet::parse(ranks->value);
    if (!parsed || parsed->empty()) {
      return base::fail(base::cli_text("--ranks: '{}' is not a list of ranks such as 2 or 0-3,7",
                                       base::sanitize(ranks->value)));
    }
    out["ranks"] = parsed->text();
  }
  if (const Setting* node = settings.find("node")) {
    out["node"] = node->value;
  }
  return out;
}

// Nodes of the job that could not be asked.
void tell_unknown(const NodeList& list) {
  const int unknown = list.expected - static_cast<int>(list.nodes.size());
  if (!list.reason.empty()) {
    base::write_stderr(fmt::format("xpurun: {}\n", base::sanitize(list.reason)));
  } else if (unknown > 0) {
    base::write_stderr(fmt::format(
        "xpurun: {}\n", base::cli_text("{} of {} nodes are not known to this node", unknown, list.expected)));
  }
}

// The answers of the nodes. The list of nodes comes first: a node may die during the capture.
base::Result<std::vector<CapturedNode>> capture(const model::RunDir& dir,
                                                const nlohmann::ordered_json& request) {
  XPURUN_TRY_ASSIGN(const model::RunManifest run, model::load_run_manifest(dir.run_json()));
  if (run.outcome != model::RunOutcome::running) {
    return base::fail(
        base::Error{.what = base::cli_text("the run in {} has ended", base::sanitize(dir.path())),
                    .id = "E-CONTROL",
                    .hint = "xpurun analyze"});
  }
  const ControlClient client(run.control);
  const bool nodes = request.contains("node");
  NodeList list;
  if (nodes) {
    XPURUN_TRY_ASSIGN(const std::string known, client.ask(R"({"cmd":"nodes"})", kListS));
    XPURUN_TRY_ASSIGN(list, node_list_from_json(known));
  }
  XPURUN_TRY_ASSIGN(const std::string reply, client.ask(model::json_text(request), kLongestS));
  const bool all = nodes && request["node"] == "all";
  std::vector<CapturedNode> out = captured_nodes(reply, list, all, dir.path());
  if (all || out.empty()) {
    tell_unknown(list);
  }
  find_readable(out);
  return out;
}

// One report of all nodes whose files can be read here; empty if there is none.
base::Result<model::CaptureReport> report_of(const std::vector<CapturedNode>& nodes) {
  std::vector<std::string> paths;
  std::string first;
  for (const CapturedNode& n : nodes) {
    if (n.readable) {
      paths.push_back(n.path() + "/profile.json");
      first = first.empty() || n.own ? n.dir : first;
    }
  }
  if (paths.empty()) {
    return model::CaptureReport();
  }
  XPURUN_TRY_ASSIGN(model::CaptureReport out, report::read_capture(paths));
  out.dir = first;
  return out;
}

int print_report(const model::CaptureReport& report, const std::vector<CapturedNode>& nodes,
                 const Settings& settings) {
  if (settings.has("json")) {
    nlohmann::ordered_json j = to_json(report);
    if (settings.has("node")) {
      j["nodes"] = to_json(nodes);
    }
    return print(model::json_text(j, 2) + "\n");
  }
  return report.dir.empty() ? 0 : print(capture_text(report, kShownOfCapture, help_columns(STDOUT_FILENO)));
}

}  // namespace

int capture_command(const Invocation& call) {
  const Settings& settings = call.words.settings;
  if (!call.words.operands.empty()) {
    return complain_usage(call, base::cli_text("unknown option '{}'; use --run for the run directory",
                                               base::sanitize(call.words.operands.front())));
  }
  const auto request = request_from(settings);
  if (!request) {
    return complain_usage(call, request.error().what);
  }
  const Setting* named = settings.find("run");
  const auto dir = model::RunDir::find(named == nullptr ? "latest" : named->value);
  if (!dir) {
    return complain(dir.error(), kExitFailure);
  }
  const auto nodes = capture(*dir, *request);
  if (!nodes) {
    return complain(nodes.error(), kExitFailure);
  }
  for (const std::string& line : missing_lines(*nodes)) {
    base::write_stderr(fmt::format("xpurun: {}\n", line));
  }
  if (std::all_of(nodes->begin(), nodes->end(), [](const CapturedNode& n) { return n.dir.empty(); })) {
    return complain(base::Error{.what = base::cli_text("no node was captured"), .id = "E-CONTROL"},
                    kExitFailure);
  }
  const auto report = report_of(*nodes);
  if (!report) {
    return complain(report.error(), kExitFailure);
  }
  for (const std::string& note : settings.has("node") ? report->notes : std::vector<std::string>()) {
    base::write_stderr(fmt::format("xpurun: note: {}\n", base::sanitize(note)));
  }
  return print_report(*report, *nodes, settings);
}

}  // namespace xpurun::launcher
