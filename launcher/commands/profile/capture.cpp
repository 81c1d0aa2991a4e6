// xpurun capture: where do the ranks of a live run spend their time? The supervisor of the run captures.
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/json_fields.h"
#include "common/model/run_dir.h"
#include "common/model/run_manifest.h"
#include "launcher/commands/analyze/capture_text.h"
#include "launcher/commands/commands.h"
#include "launcher/control/control_client.h"
#include "launcher/options/exit_status.h"
#include "launcher/options/run_settings.h"
#include "launcher/output/text_block.h"
#include "report/build/capture_files.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

namespace xpurun::launcher {

namespace {

constexpr double kLongestS = 400;  // the longest capture, and the time to write it
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
      return base::fail(base::told("give --steps or --duration, not both"));
    }
    out["steps"] = base::parse_int(text("steps")).value_or(-1);
  } else {
    out["duration_s"] = base::parse_duration_s(text("duration")).value_or(-1);
  }
  if (const Setting* ranks = settings.find("ranks")) {
    const auto parsed = model::RankSet::parse(ranks->value);
    if (!parsed || parsed->empty()) {
      return base::fail(base::told("--ranks: '{}' is not a list of ranks such as 2 or 0-3,7",
                                   base::sanitize(ranks->value)));
    }
    out["ranks"] = parsed->text();
  }
  return out;
}

// The directory of the capture, relative to the run directory.
base::Result<std::string> capture(const model::RunDir& dir, const nlohmann::ordered_json& request) {
  XPURUN_TRY_ASSIGN(const model::RunManifest run, model::load_run_manifest(dir.run_json()));
  if (run.outcome != model::RunOutcome::running) {
    return base::fail(base::Error{.what = base::told("the run in {} has ended", base::sanitize(dir.path())),
                                  .id = "E-CONTROL",
                                  .hint = "xpurun analyze"});
  }
  XPURUN_TRY_ASSIGN(const std::string reply, ControlClient(run.control).ask(request.dump(), kLongestS));
  const auto j = model::parse_json(reply);
  const nlohmann::json* where = j.is_object() ? model::member(j, "dir") : nullptr;
  if (where == nullptr || !where->is_string()) {
    return base::fail(
        base::Error{.what = base::told("the supervisor did not name a directory"), .id = "E-CONTROL"});
  }
  return where->get<std::string>();
}

}  // namespace

int capture_command(const Invocation& call) {
  const Settings& settings = call.words.settings;
  if (!call.words.operands.empty()) {
    return complain_usage(call, base::told("unknown option '{}'; use --run for the run directory",
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
  const auto where = capture(*dir, *request);
  if (!where) {
    return complain(where.error(), kExitFailure);
  }
  auto result = report::read_capture({fmt::format("{}/{}/profile.json", dir->path(), *where)});
  if (!result) {
    return complain(result.error(), kExitFailure);
  }
  result->dir = *where;
  if (settings.has("json")) {
    return print(to_json(*result).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
                 "\n");
  }
  return print(capture_text(*result, kShownOfCapture, help_columns(STDOUT_FILENO)));
}

}  // namespace xpurun::launcher
