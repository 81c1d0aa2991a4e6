#include "launcher/notify/plugins.h"

#include "common/base/output/log.h"
#include "common/base/strings.h"
#include "templates/templates.h"

#include <algorithm>

namespace xpurun::launcher {

namespace {

constexpr size_t kMostResults = 256;

}  // namespace

std::vector<std::string> plugin_files(std::string_view option, const char* variable) {
  std::vector<std::string> out;
  for (const std::string_view list : {option, std::string_view(variable != nullptr ? variable : "")}) {
    for (const std::string_view file : base::split(list, ',')) {
      const std::string path(base::trim(file));
      if (!path.empty() && std::find(out.begin(), out.end(), path) == out.end()) {
        out.push_back(path);
      }
    }
  }
  return out;
}

void Plugins::start(const LimitedProgram::Setup& setup, const std::vector<std::string>& files,
                    const std::string& run_dir, double limit_s, const std::function<void()>& idle) {
  for (const std::string& file : files) {
    runs_.emplace_back(setup, file);
  }
  for (Run& run : runs_) {
    run.program.start({"python3", "-c", std::string(templates::kPluginDriverPy), run_dir, run.file}, "",
                      limit_s,
                      {.line = [this, &run](std::string_view line) { take_line(run, line); },
                       .done =
                           [this, &run, idle](const ProgramEnd& end) {
                             if (end.status != model::ProgramStatus::ok) {
                               record({.file = run.file, .status = end.status, .text = end.reason});
                             }
                             if (!busy()) {
                               idle();
                             }
                           }});
  }
}

// A line of the driver is one result; other lines are the plug-in's own output.
void Plugins::take_line(const Run& run, std::string_view line) {
  const auto result = line.starts_with('{') ? model::plugin_result_from_line(line) : std::nullopt;
  if (!result) {
    base::log_info("plug-in {}: {}", run.file, base::sanitize(line));
    return;
  }
  record(*result);
  journal_.manifest().plugins.back().file = run.file;
}

void Plugins::record(model::PluginResult result) {
  std::vector<model::PluginResult>& results = journal_.manifest().plugins;
  if (results.size() >= kMostResults) {
    results.erase(results.begin());
  }
  base::log_info("plug-in {}: {} {}{}{}", result.file, result.function, name_of(result.status),
                 result.text.empty() ? "" : ": ", base::sanitize(result.text));
  results.push_back(std::move(result));
  journal_.changed();
}

bool Plugins::busy() const {
  return std::any_of(runs_.begin(), runs_.end(), [](const Run& run) { return run.program.busy(); });
}

void Plugins::give_up(const std::string& why) {
  for (Run& run : runs_) {
    run.program.give_up(why);
  }
}

bool Plugins::helper_ended(base::Pid pid, base::WaitStatus status) {
  return std::any_of(runs_.begin(), runs_.end(),
                     [&](Run& run) { return run.program.helper_ended(pid, status); });
}

}  // namespace xpurun::launcher
