// A private directory that the destructor removes with its content. Its owner holds an flock(2) on it for
// life. Creating a directory removes unlocked directories of the same prefix, because their owners were
// killed.
#pragma once

#include "common/base/os/fd.h"
#include "common/base/result.h"

#include <string>
#include <utility>

namespace xpurun::base {

class TemporaryDirectory {
 public:
  TemporaryDirectory() = default;
  ~TemporaryDirectory() { remove(); }
  TemporaryDirectory(TemporaryDirectory&& other) noexcept
      : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}
  TemporaryDirectory& operator=(TemporaryDirectory&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(lock_, other.lock_);
    return *this;
  }

  // Creates the directory below $TMPDIR or /tmp. Its name starts with `prefix`.
  static Result<TemporaryDirectory> create(const std::string& prefix);
  static Result<TemporaryDirectory> create_in(const std::string& parent, const std::string& prefix);
  const std::string& path() const { return path_; }

 private:
  void remove();

  std::string path_;
  UniqueFd lock_;
};

}  // namespace xpurun::base
