#include "launcher/commands/gather_dumps.h"

#include "common/model/stack_snapshot.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

namespace xpurun::launcher {

namespace fs = std::filesystem;

namespace {

base::Status failed(const std::string& doing, const std::error_code& ec) {
  return base::fail_errno(doing, ec.value());
}

base::Status link_dumps(const fs::path& from, const fs::path& to) {
  std::error_code ec;
  fs::create_directories(to, ec);
  const fs::path absolute = fs::canonical(from, ec);
  if (ec) {
    return failed(fmt::format("cannot read {}", from.string()), ec);
  }
  // Links are not followed: "latest" would give everything twice.
  auto it = fs::recursive_directory_iterator(absolute, fs::directory_options::skip_permission_denied, ec);
  for (; !ec && it != fs::recursive_directory_iterator(); it.increment(ec)) {
    const std::string name = it->path().filename();
    std::error_code ignored;
    if (!it->is_regular_file(ignored) || !(name.ends_with(model::kStacksSuffix) || name == "dump.json")) {
      continue;
    }
    const fs::path link = to / it->path().lexically_relative(absolute);
    fs::create_directories(link.parent_path(), ec);
    if (!ec) {
      fs::create_symlink(it->path(), link, ec);
    }
    if (ec) {
      return failed(fmt::format("cannot link {}", link.string()), ec);
    }
  }
  return ec ? failed(fmt::format("cannot read {}", from.string()), ec) : base::Status();
}

}  // namespace

GatheredDumps::GatheredDumps(GatheredDumps&& other) noexcept
    : path_(std::exchange(other.path_, {})), dirs_(std::move(other.dirs_)) {}

GatheredDumps::~GatheredDumps() {
  if (!path_.empty()) {
    std::error_code ec;
    fs::remove_all(path_, ec);
  }
}

base::Result<GatheredDumps> GatheredDumps::create(const std::vector<std::string>& dirs) {
  GatheredDumps out;
  std::error_code ec;
  std::string name = fs::temp_directory_path(ec) / "xpurun-stacks-XXXXXX";
  if (ec || ::mkdtemp(name.data()) == nullptr) {
    return base::fail_errno(fmt::format("cannot create {}", name));
  }
  out.path_ = name;
  out.dirs_ = dirs;
  for (size_t i = 0; i < dirs.size(); ++i) {
    XPURUN_TRY(link_dumps(dirs[i], fs::path(name) / fmt::format("{}", i)));
  }
  return out;
}

std::string GatheredDumps::original_names(std::string text) const {
  for (size_t i = dirs_.size(); i-- > 0;) {
    const std::string ours = fmt::format("{}/{}", path_, i);
    for (size_t at = text.find(ours); at != std::string::npos; at = text.find(ours, at + dirs_[i].size())) {
      text.replace(at, ours.size(), dirs_[i]);
    }
  }
  if (const size_t at = text.find(path_); at != std::string::npos) {
    text.replace(at, path_.size(), fmt::format("{} directories", dirs_.size()));
  }
  return text;
}

}  // namespace xpurun::launcher
