// The request of one call of `xpurun stacks`, from its options.
#pragma once

#include "commands/commands.h"
#include "common/base/output/progress.h"
#include "common/base/result.h"
#include "report/formats/formats.h"

#include <optional>
#include <string>
#include <vector>

namespace xpurun::launcher {

struct StacksTask {
  // Source: one of them.
  std::vector<std::string> paths;
  std::string run;
  std::vector<base::Pid> pids;
  std::vector<std::string> cores;
  std::string program;  // of the core files; may be empty
  bool children = false;
  // Dumping live processes.
  double deadline_s = 0.1;
  bool no_stop = false;
  bool locals = false;
  int samples = 1;
  double interval_s = 0.2;
  bool keep_snapshots = false;
  model::GpuStacks gpu_stacks = model::GpuStacks::never;
  // Unwinding and naming: of live processes, or again from snapshots.
  std::string unwinder = "own";
  std::string symbols;
  std::string sysroot;
  bool resolve_again = false;  // from the snapshots below `paths`, not from the stacks made of them
  // Output.
  std::optional<report::Format> format;  // nothing: the source's default
  std::optional<report::View> view;
  bool compat_xpu_timer = false;
  std::string out_dir;  // at most one of these two
  std::string out_file;
  bool quiet = false;

  bool live() const { return !pids.empty(); }
  report::Format chosen_format() const;
  report::View chosen_view() const;
};

// Fails with a sentence for complain_usage().
base::Result<StacksTask> read_stacks_task(const ParsedWords& words);

// Steps of the command; each returns the exit status.
int show_stacks(report::StackSet set, const StacksTask& task, const std::string& default_out_dir);
int dump_and_show(const StacksTask& task);
int show_cores(const StacksTask& task);
int write_xpu_timer_compat(const StacksTask& task);
// Unwinds and symbolises the snapshots below task.paths again into `directory`, which must exist.
base::Status resolve_snapshots(const StacksTask& task, const std::string& directory);
// Runs xpurun-stackdump with these arguments, at most for `limit_s` seconds. The result is its standard
// output.
base::Result<std::string> run_resolver(const std::vector<std::string>& argv, double limit_s, int stderr_fd,
                                       base::Progress& progress);
// A line on standard error unless --quiet.
void report(const StacksTask& task, std::string_view text);

}  // namespace xpurun::launcher
