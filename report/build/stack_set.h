// StackSet: the stacks of one moment from any source: dumps of xpurun below directories, files of other
// tools, or processes dumped just now. Complete, so that every output format can be written.
#pragma once

#include "common/base/result.h"
#include "report/build/build_options.h"
#include "report/run/collect.h"

#include <string>
#include <vector>

namespace xpurun::report {

struct StackSet {
  std::string about;  // the origin of the stacks, for titles
  Collected collected;
  std::vector<std::string> notes;  // sources that could not be read, and why

  const std::vector<model::ProcessStacks>& processes() const { return collected.stacks; }
};

// Paths are directories (of a run: the dump that its verdict rests on; else everything below) and files.
// E-NO-STACKS if nothing at all was found. Keep::nothing is enough for all output made from merged stacks.
base::Result<StackSet> read_stack_set(const std::vector<std::string>& paths, Keep keep = Keep::everything);

StackSet make_stack_set(std::vector<model::ProcessStacks> processes, std::string about,
                        std::vector<std::string> notes);

// Writes {merged,python,native}.{svg,folded} and stacks.txt into out_dir.
base::Result<BuildResult> write_stack_set(const StackSet& set, const std::string& out_dir,
                                          const BuildOptions& options);

// "Stacks of 4 ranks", "Stacks of process 4711: python3 train.py"
std::string ranks_title(const Collected& stacks);

}  // namespace xpurun::report
