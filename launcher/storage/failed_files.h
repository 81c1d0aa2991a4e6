// FailedFiles: the files that are not on disk in their newest text, with that text, so that it can be tried
// again: a full disk may have room later.
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
  // Only replacements count; whatever else is lost leaves a gap and no old text.
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
  // A newer text is on its way.
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
