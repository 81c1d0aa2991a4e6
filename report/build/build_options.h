// The output files of a build, and its result.
#pragma once

#include "common/base/language.h"
#include "common/model/verdict.h"

#include <functional>
#include <string>
#include <vector>

namespace xpurun::report {

enum class SourceLines {
  kept,  // the lines that the run directory holds
  read,  // also missing lines, from the files of this host; source.json keeps all
  none,
};

struct BuildOptions {
  bool verdict_only = false;  // verdict.json and no other file
  bool steps_only = false;    // no file: the verdict on the steps, also of a job that runs
  bool write_html = true;
  bool write_stacks = true;
  SourceLines source = SourceLines::kept;
  base::Language language = base::Language::english;  // of the page; the other files are English
  // Called with the verdict before any file is written, so a full disk cannot hold it back. The second
  // verdict is the first in `language`.
  std::function<void(const model::Verdict& english, const model::Verdict& spoken)> on_verdict = {};
  size_t max_boxes = 2000;  // per picture; the rest is folded into "(other, n frames)"
};

struct BuildResult {
  model::Verdict verdict;          // write_stack_set(): empty
  std::vector<std::string> notes;  // files that could not be read, with the reason
  std::string spoken_report;       // report.json in the language of the options; empty: English
  std::vector<std::string> files;  // written, absolute or as the directory was given
};

}  // namespace xpurun::report
