#include "commands/stacks/task.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/stack_snapshot.h"
#include "launcher/options/run_settings.h"
#include "launcher/stacks/live_targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sys/stat.h>

namespace xpurun::launcher {

namespace {

// "a.svg" is a file, "merged" and "out/" are directories, unless a file of that name exists.
bool means_file(const std::string& path) {
  struct stat st {};
  if (::stat(path.c_str(), &st) == 0) {
    return !S_ISDIR(st.st_mode);
  }
  const std::string_view name = base::base_name(path);
  const size_t dot = name.rfind('.');
  return !path.ends_with('/') && dot != std::string_view::npos && dot > 0;
}

std::optional<report::Format> format_of_ending(const std::string& path) {
  constexpr std::array<std::pair<std::string_view, report::Format>, 8> kEndings = {{
      {".svg", report::Format::svg},
      {".html", report::Format::html},
      {".folded", report::Format::folded},
      {".speedscope.json", report::Format::speedscope},
      {".pyspy.json", report::Format::pyspy},
      {".json", report::Format::json},
      {".pb.gz", report::Format::pprof},
      {".pprof", report::Format::pprof},
  }};
  for (const auto& [ending, format] : kEndings) {
    if (path.ends_with(ending)) {
      return format;
    }
  }
  return std::nullopt;
}

base::Result<std::vector<base::Pid>> wanted_pids(const Settings& settings) {
  std::vector<base::Pid> out;
  if (const Setting* pids = settings.find("pid")) {
    auto parsed = parse_pids(pids->value);
    if (!parsed) {
      return base::fail(std::move(parsed.error()).context("--pid"));
    }
    out = std::move(*parsed);
  }
  if (const Setting* files = settings.find("pid-file")) {
    constexpr size_t kLimit = size_t{1} << 20;
    for (std::string_view file : base::split(files->value, ',')) {
      XPURUN_TRY_ASSIGN(const std::string text, base::read_file(std::string(file), kLimit));
      auto parsed = parse_pids(text);
      if (!parsed) {
        return base::fail(
            std::move(parsed.error()).context(fmt::format("--pid-file {}", base::sanitize(file))));
      }
      out.insert(out.end(), parsed->begin(), parsed->end());
    }
  }
  return out;
}

// File names with commas between them. A file whose name has commas can be given alone.
std::vector<std::string> core_files(const std::string& value) {
  if (base::file_exists(value)) {
    return {value};
  }
  std::vector<std::string> out;
  for (const std::string_view file : base::split(value, ',')) {
    if (!file.empty()) {
      out.emplace_back(file);
    }
  }
  return out;
}

double seconds(const Settings& settings, std::string_view name, double fallback) {
  const Setting* s = settings.find(name);
  return s == nullptr ? fallback : base::parse_duration_s(s->value).value_or(fallback);
}

base::Status check_source(const StacksTask& task, const Settings& settings) {
  const bool core = settings.has("core");
  const int sources =
      (task.paths.empty() ? 0 : 1) + (task.run.empty() ? 0 : 1) + (task.live() ? 1 : 0) + (core ? 1 : 0);
  if (sources == 0) {
    return base::fail(
        base::cli_text("stacks needs a directory with dumps, --run latest, --pid PID or --core FILE"));
  }
  if (core && !task.paths.empty()) {
    return base::fail(
        base::cli_text("--core takes at most one program; several core files: --core FILE --core FILE"));
  }
  if (sources > 1) {
    return base::fail(
        base::cli_text("stacks takes directories, --run, --pid or --core, not several of them"));
  }
  if (core && task.cores.empty()) {
    return base::fail(base::cli_text("--core needs a file"));
  }
  for (const char* name :
       {"children", "deadline", "stop", "samples", "interval", "snapshots", "gpu-stacks"}) {
    if (!task.live() && settings.has(name)) {
      return base::fail(base::cli_text("--{} needs --pid or --pid-file", name));
    }
  }
  if (!task.live() && !core && settings.has("locals")) {
    return base::fail(base::cli_text("--locals needs --pid, --pid-file or --core"));
  }
  if (task.paths.size() > 1 && task.out_dir.empty() && task.out_file.empty()) {
    return base::fail(base::cli_text("several directories need --out"));
  }
  if (task.keep_snapshots && task.out_dir.empty()) {
    return base::fail(base::cli_text("--snapshots needs --out DIR"));
  }
  if (task.paths.empty() && !core && !task.sysroot.empty()) {
    return base::fail(base::cli_text("--sysroot needs snapshots or core files"));
  }
  if ((task.resolve_again || core) && task.unwinder == "gdb") {
    return base::fail(base::cli_text("--unwinder gdb needs --pid or --pid-file"));
  }
  if (task.deadline_s <= 0 || task.interval_s < 0) {
    return base::fail(base::cli_text("--deadline must be longer than 0"));
  }
  return {};
}

}  // namespace

report::Format StacksTask::chosen_format() const {
  return format.value_or(live() || !cores.empty() ? report::Format::text : report::Format::tree);
}

report::View StacksTask::chosen_view() const {
  return view.value_or(chosen_format() == report::Format::pyspy ? report::View::python
                                                                : report::View::merged);
}

base::Result<StacksTask> read_stacks_task(const ParsedWords& words) {
  const Settings& settings = words.settings;
  for (const auto& [name, setting] : settings.all()) {
    if (auto checked = check_value(*find_option(stacks_options(), name), setting.value); !checked) {
      return base::fail(std::move(checked.error()).context(fmt::format("--{}", name)));
    }
  }
  StacksTask task;
  task.paths = words.operands;
  if (const Setting* core = settings.find("core")) {
    task.cores = core_files(core->value);
    if (task.paths.size() == 1) {
      task.program = task.paths.front();
      task.paths.clear();
    }
  }
  if (const Setting* run = settings.find("run")) {
    task.run = run->value;
  }
  XPURUN_TRY_ASSIGN(task.pids, wanted_pids(settings));
  task.children = settings.has("children");
  task.deadline_s = seconds(settings, "deadline", task.deadline_s);
  task.interval_s = seconds(settings, "interval", task.interval_s);
  const Setting* stop = settings.find("stop");
  task.no_stop = stop != nullptr && stop->value == "off";
  task.locals = settings.has("locals");
  if (const Setting* samples = settings.find("samples")) {
    task.samples = static_cast<int>(base::parse_int(samples->value).value_or(1));
  }
  if (const Setting* format = settings.find("format")) {
    task.format = report::format_from(format->value);
  }
  if (const Setting* view = settings.find("view")) {
    task.view = view->value == "python"   ? report::View::python
                : view->value == "native" ? report::View::native
                                          : report::View::merged;
  }
  const auto text = [&](std::string_view name, const std::string& fallback) {
    const Setting* s = settings.find(name);
    return s == nullptr ? fallback : s->value;
  };
  task.keep_snapshots = settings.has("snapshots");
  task.gpu_stacks = model::from_name<model::GpuStacks>(text("gpu-stacks", "")).value_or(task.gpu_stacks);
  task.unwinder = text("unwinder", task.unwinder);
  task.symbols = text("symbols", "");
  task.sysroot = text("sysroot", "");
  const auto is_snapshot = [](const std::string& path) { return path.ends_with(model::kSnapshotSuffix); };
  task.resolve_again = !task.paths.empty() &&
                       (settings.has("symbols") || settings.has("sysroot") || settings.has("unwinder") ||
                        std::any_of(task.paths.begin(), task.paths.end(), is_snapshot));
  task.compat_xpu_timer = settings.has("compat");
  if (const Setting* out = settings.find("out")) {
    const bool file = !task.compat_xpu_timer && means_file(out->value);
    (file ? task.out_file : task.out_dir) = out->value;
    if (file && !task.format) {
      task.format = format_of_ending(out->value);
    }
  }
  task.quiet = settings.has("quiet");
  XPURUN_TRY(check_source(task, settings));
  return task;
}

}  // namespace xpurun::launcher
