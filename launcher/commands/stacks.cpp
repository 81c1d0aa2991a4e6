// xpurun stacks: merges dumps, or has a running xpurun take new ones first.
#include "common/base/io.h"
#include "common/base/strings.h"
#include "common/model/run_dir.h"
#include "common/model/run_manifest.h"
#include "launcher/cli/exit_status.h"
#include "launcher/cli/run_settings.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/gather_dumps.h"
#include "launcher/supervise/control_client.h"
#include "report/build.h"

#include <fmt/format.h>

#include <sys/stat.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

// Beyond what a dump of any host takes: a dump has deadlines of its own.
constexpr double kDumpTimeoutS = 60;

struct Task {
  std::string format = "text";
  std::string out;  // empty: stacks/ in the directory read
  enum class Say { everything, nothing_but_errors } say = Say::everything;
};

void tell(const Task& task, std::string_view text) {
  if (task.say == Task::Say::everything) {
    (void)base::write_all(STDERR_FILENO, fmt::format("xpurun: {}\n", base::sanitize(text)));
  }
}

// The file that holds the chosen format, from what was written.
std::string file_of(const std::vector<std::string>& files, std::string_view format) {
  const std::string_view name =
      format == "svg" ? "merged.svg" : (format == "folded" ? "merged.folded" : "stacks.txt");
  for (const std::string& file : files) {
    if (base::base_name(file) == name) {
      return file;
    }
  }
  return {};
}

int show(const report::BuildResult& built, const Task& task, const std::string& out_dir) {
  for (const std::string& note : built.notes) {
    tell(task, fmt::format("note: {}", note));
  }
  if (task.say == Task::Say::nothing_but_errors) {
    return 0;
  }
  const std::string file = file_of(built.files, task.format);
  const auto text =
      file.empty() ? base::fail(fmt::format("no {} was written", task.format)) : base::read_file(file);
  if (!text) {
    return complain(text.error(), kExitFailure);
  }
  const int status = print(*text);
  tell(task, fmt::format("open {}/merged.svg", base::shell_quote(out_dir)));
  return status;
}

int merge(const std::string& dir, const Task& task) {
  const std::string out = task.out.empty() ? dir + "/stacks" : task.out;
  const auto built = report::build_stacks(dir, out, {});
  return built ? show(*built, task, out) : complain(built.error(), kExitFailure);
}

int merge_several(const std::vector<std::string>& dirs, const Task& task) {
  const auto gathered = GatheredDumps::create(dirs);
  if (!gathered) {
    return complain(gathered.error(), kExitFailure);
  }
  auto built = report::build_stacks(gathered->path(), task.out, {});
  if (!built) {
    built.error().what = gathered->original_names(built.error().what);
    return complain(built.error(), kExitFailure);
  }
  for (std::string& note : built->notes) {
    note = gathered->original_names(note);
  }
  return show(*built, task, task.out);
}

// Dumps the run now if its xpurun is there; else what it left is what there is.
int dump_and_merge(const std::string& where, const Task& task) {
  const auto dir = model::RunDir::find(where);
  if (!dir) {
    return complain(dir.error(), kExitFailure);
  }
  const auto run = model::load_run_manifest(dir->run_json());
  if (!run) {
    return complain(run.error(), kExitFailure);
  }
  if (run->outcome != "running") {
    tell(task, fmt::format("the run has ended ({}): these are the stacks it left", run->outcome));
    return merge(dir->path(), task);
  }
  const auto dumped = ControlClient(run->control).dump(kDumpTimeoutS);
  if (dumped) {
    return merge(dir->file(*dumped), task);
  }
  if (dir->dumps().empty()) {
    return complain(dumped.error(), kExitFailure);
  }
  tell(task, fmt::format("no new dump, {}: these are the stacks there are", base::to_line(dumped.error())));
  return merge(dir->path(), task);
}

base::Result<Task> read_task(const Settings& settings) {
  Task task;
  for (const auto& [name, setting] : settings.all()) {
    if (auto checked = check_value(*find_option(stacks_options(), name), setting.value); !checked) {
      return base::fail(std::move(checked.error()).context(fmt::format("--{}", name)));
    }
  }
  if (const Setting* format = settings.find("format")) {
    task.format = format->value;
  }
  if (const Setting* out = settings.find("out")) {
    task.out = out->value;
  }
  task.say = settings.has("quiet") ? Task::Say::nothing_but_errors : Task::Say::everything;
  return task;
}

bool is_directory(const std::string& path) {
  struct stat st {};
  return ::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

}  // namespace

int stacks_command(const Invocation& call) {
  const auto task = read_task(call.words.settings);
  if (!task) {
    return complain_usage(call, task.error().what);
  }
  std::vector<std::string> dirs = call.words.operands;
  if (const Setting* run = call.words.settings.find("run")) {
    return dirs.empty() ? dump_and_merge(run->value, *task)
                        : complain_usage(call, "stacks takes directories or --run, not both");
  }
  if (dirs.empty()) {
    return complain_usage(call, "stacks needs a directory with dumps, or --run latest");
  }
  if (dirs.size() > 1 && task->out.empty()) {
    return complain_usage(call, "stacks of several directories needs --out");
  }
  for (std::string& dir : dirs) {
    if (dir == "latest") {
      auto found = model::RunDir::find(dir);
      if (!found) {
        return complain(found.error(), kExitFailure);
      }
      dir = found->path();
    } else if (!is_directory(dir)) {
      return complain(
          {.what = fmt::format("{} is not a directory", base::sanitize(dir)), .id = "E-NO-STACKS"},
          kExitFailure);
    }
  }
  return dirs.size() == 1 ? merge(dirs.front(), *task) : merge_several(dirs, *task);
}

}  // namespace xpurun::launcher
