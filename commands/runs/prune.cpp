// xpurun runs prune: lists the runs to remove, asks, removes.
#include "launcher/runs/prune.h"

#include "commands/runs/runs.h"
#include "common/base/clock.h"
#include "common/base/output/terminal.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/json/json_text.h"
#include "launcher/options/exit_status.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

namespace xpurun::launcher {

namespace {

using Json = nlohmann::ordered_json;

PruneRules read_rules(const Settings& settings) {
  PruneRules out;
  if (const Setting* keep = settings.find("keep")) {
    out.keep = static_cast<size_t>(base::parse_int(keep->value).value_or(0));
  }
  if (const Setting* age = settings.find("older-than")) {
    out.older_than_s = base::parse_duration_s(age->value);
  }
  if (const Setting* size = settings.find("max-size")) {
    out.max_bytes = base::parse_size(size->value);
  }
  return out;
}

std::string plan_text(const std::vector<PruneChoice>& choices) {
  std::string out;
  for (const PruneChoice& choice : choices) {
    out += base::tr("{}  {}, {}", base::sanitize(choice.run->name), base::human_size(choice.run->bytes),
                    choice.why) +
           "\n";
  }
  return out;
}

bool agreed(const std::string& question) {
  base::write_stderr(question);
  std::string answer;
  char c = 0;
  while (::read(STDIN_FILENO, &c, 1) == 1 && c != '\n') {
    answer += c;
  }
  return answer == "y" || answer == "Y" || answer == "yes";
}

std::string as_json(const std::vector<PruneChoice>& choices, std::string_view done) {
  Json j;
  j["schema"] = "xpurun.prune/1";
  auto& runs = j[std::string(done)] = Json::array();
  for (const PruneChoice& choice : choices) {
    runs.push_back({{"id", choice.run->name}, {"bytes", choice.run->bytes}, {"why", choice.why}});
  }
  return model::json_text(j, 2) + "\n";
}

}  // namespace

int prune_runs(const Invocation& call, const std::string& runs_dir) {
  const Settings& settings = call.words.settings;
  const PruneRules rules = read_rules(settings);
  if (!rules.any()) {
    return complain_usage(call, base::cli_text("prune needs a rule: --keep, --older-than or --max-size"));
  }
  const auto runs = list_runs(runs_dir);
  if (!runs) {
    return complain(runs.error(), kExitFailure);
  }
  const auto choices = select_runs(*runs, rules, base::wall_ns());
  uint64_t bytes = 0;
  for (const PruneChoice& choice : choices) {
    bytes += choice.run->bytes;
  }
  const bool json = settings.has("json");
  if (choices.empty() || settings.has("dry-run")) {
    return print(json ? as_json(choices, "would_remove")
                 : choices.empty()
                     ? base::tr("nothing to remove") + "\n"
                     : plan_text(choices) +
                           base::tr("would remove {} runs, {}", choices.size(), base::human_size(bytes)) +
                           "\n");
  }
  if (!json) {
    (void)print(plan_text(choices));
  }
  if (!settings.has("yes")) {
    if (!base::is_terminal(STDIN_FILENO)) {
      return complain_usage(call,
                            base::cli_text("prune cannot ask here; use --yes, or --dry-run for a preview"));
    }
    if (!agreed(base::tr("remove {} runs, {}? [y/N] ", choices.size(), base::human_size(bytes)))) {
      (void)print(base::tr("nothing removed") + "\n");
      return kExitFailure;
    }
  }
  std::vector<PruneChoice> gone;
  int status = 0;
  for (const PruneChoice& choice : choices) {
    if (const auto removed = remove_run(runs_dir, *choice.run)) {
      gone.push_back(choice);
    } else {
      status = complain(removed.error(), kExitFailure);
    }
  }
  if (const auto left = list_runs(runs_dir)) {
    mend_latest(runs_dir, *left);
  }
  const int printed =
      print(json ? as_json(gone, "removed") : base::tr("removed {} runs", gone.size()) + "\n");
  return status != 0 ? status : printed;
}

}  // namespace xpurun::launcher
