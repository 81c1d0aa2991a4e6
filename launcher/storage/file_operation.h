// FileOperation: one change of the run directory, as data, so that another process can perform it. Performing
// blocks as long as the file system does. The encoding is for a socket between a process and its fork, not
// for other programs.
#pragma once

#include "common/base/result.h"

#include <cstdint>
#include <optional>
#include <string>

namespace xpurun::launcher {

enum class FileAction : uint8_t {
  make_dirs,         // mkdir -p, mode 0700
  replace,           // readers see the old content or the new content, never a part
  create,            // the file must not exist
  append,            // the file must exist; a failed append leaves the old end
  append_or_create,  // as append, but the file may be missing
  remove,
  remove_tree,  // a directory with all that is in it
  probe,        // creates and removes a file: shows whether the file system answers
};

struct FileOperation {
  FileAction action = FileAction::probe;
  std::string path;
  std::string data = {};
};

base::Status perform(const FileOperation& operation);

// Frames: an operation with its number, and its answer. take_*() removes one complete frame from the front
// of `buffer`; returns nothing if the frame is incomplete.
struct NumberedOperation {
  uint64_t number = 0;
  FileOperation operation;
};
struct NumberedAnswer {
  uint64_t number = 0;
  std::optional<base::Error> error;
};
std::string encode(uint64_t number, const FileOperation& operation);
std::string encode_answer(uint64_t number, const base::Status& status);
std::optional<NumberedOperation> take_operation(std::string& buffer);
std::optional<NumberedAnswer> take_answer(std::string& buffer);

}  // namespace xpurun::launcher
