// xpurun report DIR: verdict and report of a run directory, made again. The supervisor runs it with --quiet,
// so that nothing heavy or hostile is parsed in the supervisor.
#include "common/base/io.h"
#include "common/base/strings.h"
#include "launcher/cli/exit_status.h"
#include "launcher/commands/commands.h"
#include "report/build.h"
#include "report/diagnosis/diagnose.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

namespace xpurun::launcher {

namespace {

std::string for_people(const model::RunDir& dir, const report::BuildResult& built) {
  std::string out;
  const auto run = model::load_run_manifest(dir.run_json());
  for (const std::string& line : report::verdict_lines(built.verdict, run.value_or(model::RunManifest{}))) {
    out += line + '\n';
  }
  return out + fmt::format("open {}\n", base::shell_quote(dir.report_html()));
}

}  // namespace

int report_command(const Invocation& call) {
  const auto& operands = call.words.operands;
  if (operands.size() != 1) {
    return complain_usage(call, operands.empty() ? "report needs a run directory, or latest"
                                                 : "report takes one run directory");
  }
  const auto dir = model::RunDir::find(operands.front());
  if (!dir) {
    return complain(dir.error(), kExitFailure);
  }
  const auto built = report::build_report(*dir, {});
  if (!built) {
    return complain(built.error(), kExitFailure);
  }
  if (call.words.settings.has("quiet")) {
    return 0;
  }
  for (const std::string& note : built->notes) {
    (void)base::write_all(STDERR_FILENO, fmt::format("xpurun: note: {}\n", base::sanitize(note)));
  }
  if (call.words.settings.has("json")) {
    using Json = nlohmann::ordered_json;
    return print(to_json(built->verdict).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  }
  return print(for_people(*dir, *built));
}

}  // namespace xpurun::launcher
