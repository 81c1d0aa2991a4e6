// xpurun stacks: files and standard output.
#include "commands/stacks/task.h"
#include "common/base/os/io.h"
#include "common/base/output/terminal.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "launcher/options/exit_status.h"
#include "report/formats/xpu_timer_compat.h"

#include <fmt/format.h>

#include <unistd.h>

namespace xpurun::launcher {

void report(const StacksTask& task, std::string_view text) {
  if (!task.quiet) {
    base::write_stderr(fmt::format("xpurun: {}\n", base::sanitize(text)));
  }
}

namespace {

// A page and a merged tree are for people, all else for programs.
std::string written(report::Format format, report::StackSet set, const StacksTask& task) {
  const bool for_people = format == report::Format::html || format == report::Format::tree;
  const base::Speaking speaking(for_people ? base::command_language() : base::Language::english);
  return report::write_format(format, std::move(set), task.chosen_view());
}

}  // namespace

int show_stacks(report::StackSet set, const StacksTask& task, const std::string& default_out_dir) {
  const report::Format format = task.chosen_format();
  for (const std::string& note : set.notes) {
    report(task, fmt::format("note: {}", note));
  }
  std::string dir = !task.out_file.empty() ? "" : (task.out_dir.empty() ? default_out_dir : task.out_dir);
  if (!dir.empty()) {
    const auto pictures = report::write_stack_set(set, dir, {});
    if (!pictures && !task.out_dir.empty()) {
      return complain(pictures.error(), kExitFailure);
    }
    if (!pictures) {  // nobody asked for the pictures: a directory of somebody else's, for example
      report(task, fmt::format("note: no pictures, {}; --out DIR puts them elsewhere",
                               base::to_line(pictures.error())));
      dir.clear();
    }
  }
  if (!task.out_file.empty()) {
    const auto saved = base::write_file_atomic(task.out_file, written(format, std::move(set), task));
    return saved ? 0 : complain(saved.error(), kExitFailure);
  }
  if (task.quiet) {
    return 0;
  }
  if (report::is_binary(format) && base::is_terminal(STDOUT_FILENO)) {
    return complain({.what = base::cli_text("{} cannot be shown on a terminal", report::name_of(format)),
                     .hint = "xpurun stacks ... --out stacks.pb.gz"},
                    kExitFailure);
  }
  const int status = print(written(format, std::move(set), task));
  if (!dir.empty()) {
    report(task, fmt::format("open {}/merged.svg", base::shell_quote(dir)));
  }
  return status;
}

int write_xpu_timer_compat(const StacksTask& task) {
  const auto merged = report::merge_as_xpu_timer(task.paths);
  if (!merged) {
    return complain(merged.error(), kExitFailure);
  }
  for (const std::string& note : merged->notes) {
    report(task, fmt::format("note: {}", note));
  }
  const std::string dir = task.out_dir.empty() ? task.paths.front() : task.out_dir;
  if (auto made = base::make_dirs(dir); !made) {
    return complain(made.error(), kExitFailure);
  }
  for (const auto& [name, text] :
       {std::pair{"cpp_stack", &merged->cpp}, std::pair{"py_stack", &merged->py},
        std::pair{"cpp_stack.svg", &merged->cpp_svg}, std::pair{"py_stack.svg", &merged->py_svg}}) {
    const std::string path = fmt::format("{}/{}", dir, name);
    if (auto written = base::write_file_atomic(path, *text); !written) {
      return complain(written.error(), kExitFailure);
    }
    report(task, fmt::format("wrote {}", base::shell_quote(path)));
  }
  return 0;
}

}  // namespace xpurun::launcher
