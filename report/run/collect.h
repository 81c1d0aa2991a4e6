// Reads a directory of dumps: stack files into trees and classes, plus their manifests. An unreadable file
// becomes a note and, if its rank is known, a rank without stacks.
#pragma once

#include "common/model/dump_manifest.h"
#include "common/model/stack_snapshot.h"
#include "report/tree/stack_classes.h"
#include "report/tree/stack_forest.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace xpurun::report {

// One process of a dump, a row of the table of dump results.
struct ProcessLine {
  base::Rank rank = base::kNoRank;
  base::Pid pid = 0;
  std::string host;
  model::ProcessRole role = model::ProcessRole::other;
  model::DumpStatus status = model::DumpStatus::ok;
  std::string reason;
  int64_t pause_ns = 0;
  size_t threads = 0;
};

struct Collected {
  StackForest forest;
  ClassBuilder classes;
  std::vector<model::ProcessStacks>
      stacks;  // for the diagnosis; very large dumps keep only the significant threads
  std::vector<ProcessLine> processes;  // ranks first
  std::vector<std::string> notes;
};

// *.stacks.json directly in `dir`, in numeric order: rank-2 before rank-10.
std::vector<std::string> stack_files_in(const std::string& dir);

// Directories at or below `roots` that hold stack files. If another directory has newer dumps of the same
// processes, a directory is left out and named in `notes`.
struct DumpDirs {
  std::vector<std::string> dirs;
  std::vector<std::string> notes;
};
DumpDirs find_dump_dirs(const std::vector<std::string>& roots);

enum class Keep {
  nothing,            // no stacks of single processes
  diagnosed_threads,  // in very large dumps, only the threads that the diagnosis uses
  everything,
};
// A directory and the ranks to take from it.
struct DumpSource {
  std::string dir;
  std::function<bool(base::Rank)> counts = {};  // empty: all ranks
};
// The dump.json of each directory, if present, names what is missing. `others` are added to the processes of
// the directories.
Collected collect_from(const std::vector<DumpSource>& sources, Keep keep = Keep::diagnosed_threads,
                       std::vector<model::ProcessStacks> others = {});
Collected collect(const std::vector<std::string>& dump_dirs, Keep keep = Keep::diagnosed_threads,
                  std::vector<model::ProcessStacks> others = {});

}  // namespace xpurun::report
