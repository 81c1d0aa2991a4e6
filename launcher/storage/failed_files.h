// FailedFiles: the files whose newest text is not on disk, with that text for another try: a full disk may
// have space later.
#pragma once

#include "common/base/result.h"
#include "launcher/storage/file_operation.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace xpurun::launcher {

class FailedFiles {
 public:
  // Only replacements are kept: a lost append leaves a gap, not an outdated file.
  void note(FileOperation operation, const base::Status& status) {
    if (operation.action != FileAction::replace) {
      return;
    }
    if (status) {
      files_.erase(operation.path);
    } else {
      const std::string path = operation.path;
      files_[path] = {base::to_line(status.error()), std::move(operation)};
    }
  }
  // A newer text was submitted.
  void forget(const FileOperation& operation) {
    if (operation.action == FileAction::replace) {
      files_.erase(operation.path);
    }
  }
  std::vector<FileOperation> to_retry() const {
    std::vector<FileOperation> out;
    for (const auto& [path, failed] : files_) {
      out.push_back(failed.second);
    }
    return out;
  }
  bool none() const { return files_.empty(); }
  std::string problem() const { return files_.empty() ? std::string() : files_.begin()->second.first; }

 private:
  std::map<std::string, std::pair<std::string, FileOperation>> files_;
};

}  // namespace xpurun::launcher
