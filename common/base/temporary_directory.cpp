#include "common/base/temporary_directory.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

namespace xpurun::base {

namespace fs = std::filesystem;

void TemporaryDirectory::remove() {
  if (!path_.empty()) {
    std::error_code ec;
    fs::remove_all(path_, ec);
  }
}

Result<TemporaryDirectory> TemporaryDirectory::create(const std::string& prefix) {
  std::error_code ec;
  const fs::path parent = fs::temp_directory_path(ec);
  return create_in(ec ? "/tmp" : parent.string(), prefix);
}

Result<TemporaryDirectory> TemporaryDirectory::create_in(const std::string& parent,
                                                         const std::string& prefix) {
  std::string name = fmt::format("{}/{}-XXXXXX", parent, prefix);
  if (::mkdtemp(name.data()) == nullptr) {
    return fail_errno(fmt::format("cannot create a directory in {}", parent));
  }
  TemporaryDirectory out;
  out.path_ = std::move(name);
  return out;
}

}  // namespace xpurun::base
