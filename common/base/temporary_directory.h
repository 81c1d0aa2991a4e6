// A private directory that is removed with its content by the destructor.
#pragma once

#include "common/base/result.h"

#include <string>
#include <utility>

namespace xpurun::base {

class TemporaryDirectory {
 public:
  TemporaryDirectory() = default;
  ~TemporaryDirectory() { remove(); }
  TemporaryDirectory(TemporaryDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryDirectory& operator=(TemporaryDirectory&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }

  // Below $TMPDIR or /tmp, with this beginning of its name.
  static Result<TemporaryDirectory> create(const std::string& prefix);
  static Result<TemporaryDirectory> create_in(const std::string& parent, const std::string& prefix);
  const std::string& path() const { return path_; }

 private:
  void remove();

  std::string path_;
};

}  // namespace xpurun::base
