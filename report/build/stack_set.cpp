#include "report/build/stack_set.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/model/run_dir.h"
#include "common/model/stacks/stack_file.h"
#include "report/import/import.h"
#include "report/nodes/job_dump.h"
#include "report/nodes/merged_run.h"

#include <fmt/format.h>

#include <filesystem>

namespace xpurun::report {

namespace fs = std::filesystem;

namespace {

// The files of the paths, sorted by the way in which they are read.
struct Sources {
  std::vector<std::string> dump_dirs;
  std::vector<model::ProcessStacks> foreign;
  std::vector<std::string> notes;

  void add_notes(const std::vector<std::string>& more) {
    notes.insert(notes.end(), more.begin(), more.end());
  }
};

void add_imported(Sources& to, const std::string& path) {
  auto imported = import_file(path);
  if (!imported) {
    to.notes.push_back(base::to_line(imported.error()));
    return;
  }
  for (const std::string& note : imported->notes) {
    to.notes.push_back(fmt::format("{}: {}", path, note));
  }
  to.foreign.insert(to.foreign.end(), std::make_move_iterator(imported->processes.begin()),
                    std::make_move_iterator(imported->processes.end()));
}

// A run directory counts as the dump that its verdict rests on.
bool add_run(Sources& to, const std::string& dir) {
  const model::RunDir run_dir(dir);
  if (!base::file_exists(run_dir.run_json())) {
    return false;
  }
  if (const auto job = read_job(run_dir)) {
    to.add_notes(job->notes);
    const RankOwners owners(*job, shifts_of(*job));
    for (const DumpPart& part : pick_job_dump(*job, merge_runs(*job, owners)).parts) {
      to.dump_dirs.push_back(part.path);
    }
  }
  return true;
}

// One file named on the command line. A stacks file of xpurun is read in the same way as in a directory.
void add_file(Sources& to, const std::string& path) {
  if (!path.ends_with(model::kStacksSuffix)) {
    add_imported(to, path);
    return;
  }
  if (auto p = model::load_process_stacks(path)) {
    to.foreign.push_back(std::move(*p));
  } else {
    to.notes.push_back(base::to_line(p.error()));
  }
}

Sources sort_out(const std::vector<std::string>& paths) {
  Sources out;
  std::vector<std::string> trees;
  for (const std::string& path : paths) {
    std::error_code ec;
    if (!fs::is_directory(path, ec)) {
      add_file(out, path);
    } else if (paths.size() > 1 || !add_run(out, path)) {
      trees.push_back(path);
    }
  }
  DumpDirs found = find_dump_dirs(trees);
  out.dump_dirs.insert(out.dump_dirs.end(), found.dirs.begin(), found.dirs.end());
  out.add_notes(found.notes);
  for (const std::string& tree : trees) {
    const ForeignFiles foreign = find_foreign_files(tree);
    for (const std::string& file : foreign.files) {
      add_imported(out, file);
    }
    out.add_notes(foreign.notes);
  }
  return out;
}

}  // namespace

std::string ranks_title(const Collected& stacks) {
  const size_t n = stacks.forest.ranks().size();
  if (n > 0) {
    return fmt::format("Stacks of {} rank{}", n, n == 1 ? "" : "s");
  }
  const size_t processes = stacks.processes.size();
  if (processes == 1 && stacks.processes.front().pid > 0) {
    constexpr size_t kLongestCommand = 80;
    const std::string command =
        stacks.stacks.empty() ? "" : base::sanitize(base::join(stacks.stacks.front().cmdline, " "));
    return fmt::format("Stacks of process {}{}{}", stacks.processes.front().pid, command.empty() ? "" : ": ",
                       base::elide_middle(command, kLongestCommand));
  }
  return fmt::format("Stacks of {} process{}", processes, processes == 1 ? "" : "es");
}

base::Result<StackSet> read_stack_set(const std::vector<std::string>& paths, Keep keep) {
  Sources sources = sort_out(paths);
  const std::string shown =
      paths.size() == 1 ? paths.front() : fmt::format("{} and {} more", paths.front(), paths.size() - 1);
  const auto nothing = [&shown](std::string cause, const std::vector<std::string>& notes) {
    if (!notes.empty()) {
      cause += fmt::format("; {}", notes.front());
    }
    return base::fail(base::Error{.what = fmt::format("no stacks below {}", shown),
                                  .id = "E-NO-STACKS",
                                  .cause = std::move(cause),
                                  .hint = "xpurun stacks --pid PID"});
  };
  if (sources.dump_dirs.empty() && sources.foreign.empty()) {
    return nothing(fmt::format("no file there is named *{} or is in another format that can be read",
                               model::kStacksSuffix),
                   sources.notes);
  }
  StackSet out;
  out.about = base::sanitize(shown);
  out.collected = collect(sources.dump_dirs, keep, std::move(sources.foreign));
  out.notes = std::move(sources.notes);
  out.notes.insert(out.notes.end(), out.collected.notes.begin(), out.collected.notes.end());
  if (out.collected.processes.empty()) {
    return nothing("none of the files there could be read", out.notes);
  }
  return out;
}

StackSet make_stack_set(std::vector<model::ProcessStacks> processes, std::string about,
                        std::vector<std::string> notes) {
  StackSet out;
  out.about = std::move(about);
  out.collected = collect({}, Keep::everything, std::move(processes));
  out.notes = std::move(notes);
  return out;
}

}  // namespace xpurun::report
