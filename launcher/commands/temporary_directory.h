// A directory that is removed with everything in it.
#pragma once

#include "common/base/result.h"

#include <string>

namespace xpurun::launcher {

class TemporaryDirectory {
 public:
  TemporaryDirectory() = default;
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  // Below $TMPDIR, with this beginning of its name.
  base::Status create(const std::string& prefix);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace xpurun::launcher
