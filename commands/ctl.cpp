// xpurun ctl and xpurun nodes: send a request to the supervisor of a live run through its control socket.
#include "commands/commands.h"
#include "common/base/clock.h"
#include "common/base/output/terminal.h"
#include "common/base/strings.h"
#include "common/base/suggest.h"
#include "common/base/tr.h"
#include "common/model/json/json_text.h"
#include "common/model/json_fields.h"
#include "common/model/rank_set.h"
#include "common/model/run_dir.h"
#include "common/model/run_manifest.h"
#include "common/model/timing/op_names.h"
#include "common/model/timing/trace_problem.h"
#include "launcher/control/control_client.h"
#include "launcher/options/exit_status.h"
#include "launcher/options/run_settings.h"
#include "launcher/output/live_status.h"
#include "launcher/output/node_list.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

using nlohmann::ordered_json;

// Other nodes are given ten seconds for their answer, unless the request takes time itself.
constexpr double kCtlLimitS = 12;
// In addition to the time limit of the dump or trace itself.
constexpr double kDumpLimitS = 300;
constexpr size_t kWidestCtl = 200;

struct Question {
  ordered_json request;
  double limit_s = kCtlLimitS;
};

// "1763721600", or "+30s": from now.
std::optional<double> moment(const std::string& text) {
  if (text.starts_with('+')) {
    const auto from_now = base::parse_duration_s(text.substr(1));
    return from_now ? std::optional(base::ns_to_s(base::wall_ns()) + *from_now) : std::nullopt;
  }
  const auto seconds = base::parse_int(text);
  return seconds ? std::optional(static_cast<double>(*seconds)) : std::nullopt;
}

// All nodes that get the request in time begin together. A trace needs a tenth of a second before its start,
// and a request to other nodes takes less than the rest.
double next_common_second(double now_s) {
  constexpr double kLeastAheadS = 0.5;
  return std::ceil(now_s + kLeastAheadS);
}

base::Result<Question> trace_question(const Settings& set) {
  Question out{.request = {{"cmd", "trace"}, {"wait", !set.has("background")}}};
  double timeout_s = 60;
  double start_s = 0;
  if (const Setting* count = set.find("count")) {
    out.request["count"] = base::parse_int(count->value).value_or(0);
  }
  if (const Setting* at = set.find("at")) {
    const auto when = moment(at->value);
    if (!when) {
      return base::fail(
          base::cli_text("--at: '{}' is neither seconds since 1970 nor a time from now such as +30s",
                         base::sanitize(at->value)));
    }
    out.request["at"] = *when;
    start_s = std::max(0.0, *when - base::ns_to_s(base::wall_ns()));
  }
  if (!set.has("at")) {
    const double at = next_common_second(base::ns_to_s(base::wall_ns()));
    out.request["at"] = at;
    start_s = 2;
  }
  if (const Setting* kinds = set.find("kinds")) {
    out.request["kinds"] = base::split(kinds->value, ',');
  }
  if (const Setting* timeout = set.find("timeout")) {
    timeout_s = base::parse_duration_s(timeout->value).value_or(timeout_s);
    out.request["timeout_s"] = timeout_s;
  }
  if (const Setting* name = set.find("name")) {
    out.request["name"] = name->value;
  }
  if (!set.has("background")) {
    out.limit_s += start_s + timeout_s;
  }
  return out;
}

base::Result<Question> traced_question(const std::vector<std::string>& words) {
  const std::string verb = words.empty() ? "list" : words.front();
  const std::vector<std::string> names(words.begin() + (words.empty() ? 0 : 1), words.end());
  if (verb == "list" && names.empty()) {
    return Question{.request = {{"cmd", "trace-python"}}};
  }
  if ((verb == "add" || verb == "remove") && !names.empty()) {
    return Question{.request = {{"cmd", "trace-python"}, {verb, names}}};
  }
  return base::fail(
      base::cli_text("ctl trace-python needs list, or add or remove with names such as train:collate"));
}

base::Result<Question> question(const std::string& action, const std::vector<std::string>& rest,
                                const Settings& set) {
  if (action == "timing") {
    if (rest.size() != 1) {
      return base::fail(base::cli_text("ctl timing needs one level: off, light or full"));
    }
    if (!model::level_from_name(rest.front())) {
      return base::fail(
          base::cli_text("'{}' is not a timing level; use off, light or full", base::sanitize(rest.front())));
    }
    return Question{.request = {{"cmd", "timing"}, {"level", rest.front()}}};
  }
  if (action == "trace-python") {
    return traced_question(rest);
  }
  if (!rest.empty()) {
    return base::fail(base::cli_text("ctl {} takes no further arguments", action));
  }
  if (action == "trace") {
    return trace_question(set);
  }
  if (action == "dump") {
    return Question{.request = {{"cmd", "dump"}, {"why", "request"}}, .limit_s = kDumpLimitS};
  }
  if (action == "status") {
    // Of all nodes, unless --node names one.
    return Question{.request = {{"cmd", action}, {"job", !set.has("node")}}};
  }
  if (action == "reset") {
    return Question{.request = {{"cmd", action}}};
  }
  std::string what = base::cli_text(
      "ctl can request status, timing, dump, trace, trace-python and reset, not {}", base::sanitize(action));
  if (const auto near =
          base::closest(action, {"status", "timing", "dump", "trace", "trace-python", "reset"})) {
    what += base::cli_text("; did you mean {}?", *near);
  }
  return base::fail(std::move(what));
}

std::string traced_text(const nlohmann::json& j) {
  const auto list = [&](const char* key) { return j.contains(key) ? j[key] : nlohmann::json::array(); };
  const auto word = [](const nlohmann::json& in, const char* key) {
    return in.is_object() && in.contains(key) && in[key].is_string() ? in[key].get<std::string>()
                                                                     : std::string();
  };
  std::string out;
  for (const auto& one : list("functions")) {
    const std::string name = base::sanitize(word(one, "name"));
    const auto problem = model::from_name<model::TraceProblem>(word(one, "problem"));
    out += (problem ? model::sentence_of({.name = name, .problem = *problem}) : name) + "\n";
  }
  model::RankSet pending;
  model::RankSet no_spans;
  for (const auto& one : list("ranks")) {
    const std::string follows = word(one, "follows");
    if (const auto rank = one.find("rank"); rank != one.end() && rank->is_number_integer()) {
      if (follows == "pending") {
        pending.insert(rank->get<int>());
      } else if (follows == "no_spans") {
        no_spans.insert(rank->get<int>());
      }
    }
  }
  const auto note = [](const model::RankSet& ranks, std::string_view what) {
    return ranks.empty() ? std::string()
                         : fmt::format("rank{} {}: {}\n", ranks.size() > 1 ? "s" : "", ranks.text(), what);
  };
  return (out.empty() ? "no function of Python is traced\n" : out) +
         note(pending, "from the end of the next span on") +
         note(no_spans, no_spans.size() > 1 ? "no span was seen, so this list does not reach them"
                                            : "no span was seen, so this list does not reach it");
}

// `dir`: the run directory of the node that has answered.
std::string text_of(const std::string& action, const std::string& reply, const std::string& dir) {
  const auto j = model::parse_json(reply);
  const auto field = [&](const char* key) {
    return j.contains(key) && j[key].is_string() ? base::sanitize(j[key].get<std::string>()) : std::string();
  };
  if (action == "status") {
    const auto status = live_status_from_json(reply);
    if (!status) {
      return base::to_text(status.error());
    }
    const std::string trace = status->trace.empty() ? "" : ", not finished: " + base::sanitize(status->trace);
    return live_table(*status, std::min(base::terminal_columns(STDOUT_FILENO), kWidestCtl), 0,
                      Ink::for_stream(STDOUT_FILENO)) +
           fmt::format("timing {}{}\n", base::sanitize(status->timing), trace);
  }
  if (action == "timing" || action == "reset") {
    return fmt::format("timing is {}\n", field("level"));
  }
  if (action == "trace-python") {
    return traced_text(j);
  }
  const std::string ended = field("ended");
  return fmt::format("{}/{}{}\n", base::sanitize(dir), field("dir"),
                     ended.empty() || ended == "complete" ? "" : fmt::format(" ({})", ended));
}

// Every node of the job that was asked, one after the other.
std::string text_of_nodes(const std::string& action, const std::string& reply, const model::RunDir& dir) {
  const auto j = model::parse_json(reply);
  if (!j.contains("answers")) {
    return text_of(action, reply, dir.path());  // this node was meant
  }
  if (!j["answers"].is_array() || j["answers"].empty()) {
    return "no other node answers\n";
  }
  constexpr int kNoSuchNode = 404;
  std::string out;
  for (const auto& answer : j["answers"]) {
    const bool is_object = answer.is_object();
    const std::string node = is_object ? answer.value("node", "") : "";
    const auto said = is_object ? answer.find("reply") : answer.end();
    const bool answered = said != answer.end() && said->is_object();
    out += fmt::format("node {}:\n", base::sanitize(node));
    if (answered && said->contains("ok") && (*said)["ok"] == true) {
      // In its own run directory, on its host.
      const auto known = said->find("run_dir");
      const std::string there =
          known != said->end() && known->is_string() ? known->get<std::string>() : "<its run directory>";
      out += text_of(action, said->dump(), there);
    } else if (is_object && answer.value("status", 0) == kNoSuchNode) {
      out += "there is no such node: xpurun nodes lists them\n";
    } else {
      const bool why = answered && said->contains("error") && (*said)["error"].is_string();
      out += fmt::format("{}\n", why ? base::sanitize((*said)["error"].get<std::string>()) : "no answer");
    }
  }
  return out;
}

base::Result<std::string> ask(const model::RunDir& dir, const ordered_json& request, double limit_s) {
  XPURUN_TRY_ASSIGN(const model::RunManifest run, model::load_run_manifest(dir.run_json()));
  if (run.outcome != model::RunOutcome::running) {
    return base::fail(
        base::Error{.what = base::cli_text("the run in {} has ended", base::sanitize(dir.path())),
                    .id = "E-CONTROL",
                    .hint = "xpurun runs"});
  }
  return ControlClient(run.control).ask(model::json_text(request), limit_s);
}

}  // namespace

int ctl_command(const Invocation& call) {
  for (const auto& [name, setting] : call.words.settings.all()) {
    if (auto checked = check_value(*find_option(ctl_options(), name), setting.value); !checked) {
      return complain_usage(call, fmt::format("--{}: {}", name, checked.error().what));
    }
  }
  std::vector<std::string> words = call.words.operands;
  const std::string action = words.empty() ? "status" : words.front();
  words.erase(words.begin(), words.begin() + (words.empty() ? 0 : 1));
  const auto asked = question(action, words, call.words.settings);
  if (!asked) {
    return complain_usage(call, asked.error().what);
  }
  const Setting* named = call.words.settings.find("run");
  const auto dir = model::RunDir::find(named == nullptr ? "latest" : named->value);
  if (!dir) {
    return complain(dir.error(), kExitFailure);
  }
  const Setting* node = call.words.settings.find("node");
  ordered_json request = asked->request;
  if (node != nullptr) {
    request["node"] = node->value;
  }
  const auto reply = ask(*dir, request, asked->limit_s);
  if (!reply) {
    return complain(reply.error(), kExitFailure);
  }
  if (call.words.settings.has("json")) {
    return print(*reply + "\n");
  }
  return print(node != nullptr ? text_of_nodes(action, *reply, *dir) : text_of(action, *reply, dir->path()));
}

int nodes_command(const Invocation& call) {
  const auto& words = call.words.operands;
  if (words.size() > 1) {
    return complain_usage(call, base::cli_text("nodes takes one run directory"));
  }
  const auto dir = model::RunDir::find(words.empty() ? "latest" : words.front());
  if (!dir) {
    return complain(dir.error(), kExitFailure);
  }
  const auto reply = ask(*dir, {{"cmd", "nodes"}}, kCtlLimitS);
  if (!reply) {
    return complain(reply.error(), kExitFailure);
  }
  if (call.words.settings.has("json")) {
    return print(*reply + "\n");
  }
  const auto list = node_list_from_json(*reply);
  if (!list) {
    return complain(list.error(), kExitFailure);
  }
  return print(node_table(*list, std::min(base::terminal_columns(STDOUT_FILENO), kWidestCtl),
                          Ink::for_stream(STDOUT_FILENO)));
}

}  // namespace xpurun::launcher
