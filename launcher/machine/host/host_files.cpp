#include "launcher/machine/host/host_files.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>

namespace xpurun::launcher {

namespace {

constexpr size_t kLongestFile = size_t{4} << 20;

std::string text_of(const std::string& path) {
  const auto text = base::read_file_start(path, kLongestFile);
  return text ? std::string(base::trim(*text)) : std::string();
}

}  // namespace

std::string HostFiles::proc_path(std::string_view path) const {
  return fmt::format("{}/{}", proc_root_, path);
}

std::string HostFiles::sys_path(std::string_view path) const {
  return fmt::format("{}/{}", sys_root_, path);
}

std::string HostFiles::proc_text(std::string_view path) const {
  return text_of(proc_path(path));
}

std::string HostFiles::sys_text(std::string_view path) const {
  return text_of(sys_path(path));
}

std::optional<uint64_t> HostFiles::sys_number(std::string_view path) const {
  const auto number = base::parse_int(sys_text(path));
  return number && *number >= 0 ? std::optional(static_cast<uint64_t>(*number)) : std::nullopt;
}

std::vector<std::string> HostFiles::sys_names(std::string_view directory) const {
  std::vector<std::string> out;
  std::error_code ec;
  std::filesystem::directory_iterator it(sys_path(directory), ec);
  for (; !ec && it != std::filesystem::directory_iterator(); it.increment(ec)) {
    out.push_back(it->path().filename().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string HostFiles::sys_link(std::string_view path) const {
  return base::read_link(sys_path(path)).value_or("");
}

std::optional<model::MissingSource> HostFiles::missing(const std::string& path) const {
  const base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd) {
    return std::nullopt;
  }
  return model::MissingSource{.source = path, .reason = std::strerror(errno)};
}

}  // namespace xpurun::launcher
