// AppendedFile: a file of the run directory that grows in blocks. Failures become known only when the storage
// has replied. Event loop's thread only.
#pragma once

#include "launcher/storage/storage.h"

#include <memory>
#include <string>

namespace xpurun::launcher {

class AppendedFile {
 public:
  // Also creates the directory. The file must not exist; its mode is 0600. The storage must outlive this
  // object.
  AppendedFile(Storage& storage, const std::string& directory, const std::string& name,
               const std::string& head);

  // After a failure the file ends with its last complete block; later blocks are dropped.
  void append(std::string block);

  // Size of the file, with blocks that are not on the disk yet.
  uint64_t bytes() const { return bytes_; }
  const std::string& path() const { return path_; }
  // The first failure that the storage has reported so far.
  const base::Status& status() const { return *status_; }

 private:
  // Results may arrive after this object was destroyed or moved.
  Storage::Done note_failure() const;

  Storage* storage_;
  std::string path_;
  std::shared_ptr<base::Status> status_ = std::make_shared<base::Status>();
  uint64_t bytes_ = 0;
};

}  // namespace xpurun::launcher
