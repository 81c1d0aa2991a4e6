// Which files of a rank hold its last seconds: its own files are rotated, and traces and captures lie beside
// them.
#pragma once

#include "report/timeline/inputs.h"

#include <string>
#include <vector>

namespace xpurun::report {

// Files of one kind: what a rank's own files of a name, all traces, or all captures are.
struct FileChain {
  struct File {
    std::string path;
    int64_t begin_ns = 0;  // wall time of its first event at the earliest
  };
  std::vector<File> files;  // the newest first

  // The newest file and those before it that may have events after `from_ns`.
  void take(int64_t from_ns, std::vector<std::string>& out) const;
  // Whether take() gives more than the newest file.
  bool reaches_back(int64_t from_ns) const { return files.size() > 1 && files.front().begin_ns > from_ns; }
};

std::vector<FileChain> file_chains(const std::vector<std::string>& files);

}  // namespace xpurun::report
