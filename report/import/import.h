// Imports stacks written by other tools: the choice of files, and their conversion. Every reader is a pure
// function of bytes and never fails silently: `notes` name everything that it could not read.
#pragma once

#include "report/import/imported.h"

#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

enum class ForeignFormat {
  unknown,
  folded,
  pyspy_json,
  pyspy_text,
  pystack_text,
  gdb_text,
  xpu_timer,
  xpu_timer_launches,
  faulthandler_text,
  speedscope,
  chrome_trace
};
std::string_view name_of(ForeignFormat format);
// Decides by the file name's suffix and the first lines.
ForeignFormat sniff(std::string_view file_name, std::string_view content);

base::Result<Imported> import_content(ForeignFormat format, std::string_view content, const ImportHint& hint);
// Fails, naming the file and the reason, if the format is unknown or nothing in the file is readable.
base::Result<Imported> import_file(const std::string& path);

// Files below `dir` that may hold stacks of other tools. Leaves out xpurun's own files, pictures, and
// directories with xpurun's own stacks.
struct ForeignFiles {
  std::vector<std::string> files;
  std::vector<std::string> notes;
};
ForeignFiles find_foreign_files(const std::string& dir);

}  // namespace xpurun::report
