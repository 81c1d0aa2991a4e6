// xpu_timer's own merge of stacks, byte for byte, for tools and users that expect it: folded text whose
// frames end in "@<ranks that have it>|<ranks that lack it>", every distinct stack of width 1, and pictures
// in its five colours. docs/stacks.md lists the limits of this mode.
#pragma once

#include "common/base/result.h"
#include "report/import/xpu_timer.h"

#include <map>
#include <string>
#include <vector>

namespace xpurun::report {

struct XpuTimerMerge {
  std::string cpp;  // cpp_stack
  std::string py;   // py_stack
  std::string cpp_svg;
  std::string py_svg;
  std::vector<std::string> notes;
};

// Pure. Ranks in ascending order; all files of a rank count.
XpuTimerMerge merge_xpu_stacktraces(const std::multimap<int, XpuStacktrace>& ranks, int world_size);

// Merges the RRRRR-WWWWW*stacktrace files directly in the directory, as xpu_timer does. Without such files,
// converts any stacks that read_stack_set() finds.
base::Result<XpuTimerMerge> merge_as_xpu_timer(const std::vector<std::string>& paths);

// A flame graph of folded lines with widths of 1: green libraries, yellow C++, aqua Python, purple states,
// red the rest.
std::string xpu_timer_svg(const std::string& folded, const std::string& title);

}  // namespace xpurun::report
