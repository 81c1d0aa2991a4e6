// What a build writes, and the result of a build.
#pragma once

#include "common/model/verdict.h"

#include <functional>
#include <string>
#include <vector>

namespace xpurun::report {

enum class SourceLines {
  kept,  // those that the run directory holds
  read,  // these, and what is missing from the files of this host; source.json keeps all
  none,
};

struct BuildOptions {
  bool write_html = true;
  bool write_stacks = true;
  SourceLines source = SourceLines::kept;
  // Told the verdict before anything is written: a full disk does not keep it back.
  std::function<void(const model::Verdict&)> on_verdict = {};
  size_t max_boxes = 2000;  // per picture; the rest is folded into "(other, n frames)"
};

struct BuildResult {
  model::Verdict verdict;          // build_stacks: empty
  std::vector<std::string> notes;  // files that could not be read, with the reason
  std::vector<std::string> files;  // written, absolute or as the directory was given
};

}  // namespace xpurun::report
