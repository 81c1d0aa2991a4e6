// Stacks that other tools have written: which files are tried, and what they turn into. Every reader is a
// pure function of bytes and never fails half-way silently: what it could not read it says in `notes`.
#pragma once

#include "report/import/imported.h"

#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

enum class ForeignFormat { unknown, folded, pyspy_json, pyspy_text, pystack_text, gdb_text, xpu_timer };
std::string_view name_of(ForeignFormat format);
// From the name's end and the first lines.
ForeignFormat sniff(std::string_view file_name, std::string_view content);

base::Result<Imported> import_content(ForeignFormat format, std::string_view content, const ImportHint& hint);
// Fails, naming the file and the reason, if it is in no known format or nothing in it could be read.
base::Result<Imported> import_file(const std::string& path);

// Files below `dir` that may hold foreign stacks: none of ours, no pictures, nothing in directories that hold
// stacks of ours.
struct ForeignFiles {
  std::vector<std::string> files;
  std::vector<std::string> notes;
};
ForeignFiles find_foreign_files(const std::string& dir);

}  // namespace xpurun::report
