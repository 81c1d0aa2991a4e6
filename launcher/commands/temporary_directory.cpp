#include "launcher/commands/temporary_directory.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

namespace xpurun::launcher {

namespace fs = std::filesystem;

TemporaryDirectory::~TemporaryDirectory() {
  if (!path_.empty()) {
    std::error_code ec;
    fs::remove_all(path_, ec);
  }
}

base::Status TemporaryDirectory::create(const std::string& prefix) {
  std::error_code ec;
  std::string name = fs::temp_directory_path(ec) / (prefix + "-XXXXXX");
  if (ec || ::mkdtemp(name.data()) == nullptr) {
    return base::fail_errno(fmt::format("cannot create {}", name));
  }
  path_ = name;
  return {};
}

}  // namespace xpurun::launcher
