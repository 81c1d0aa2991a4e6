#include "launcher/machine/memory/memory_files.h"

#include "common/base/strings.h"
#include "common/model/stacks/file_system.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sys/stat.h>
#include <system_error>

namespace xpurun::launcher {

using model::MappedKind;

namespace {

constexpr size_t kMostFiles = 4096;
constexpr int kMostLevels = 4;       // folders below a mount point
constexpr int kMostOpenFiles = 512;  // of one process
constexpr size_t kMostListed = 8;
constexpr int64_t kLeastListed = int64_t{16} << 20;
constexpr int64_t kBlock = 512;

bool keeps_in_memory(const std::string& type) {
  return type == "tmpfs" || type == "ramfs";
}

int64_t bytes_of(const struct stat& file) {
  return static_cast<int64_t>(file.st_blocks) * kBlock;
}

// Mount points of file systems that keep their files in memory.
std::vector<std::string> memory_mounts(std::string_view mountinfo) {
  constexpr size_t kPoint = 4;
  std::vector<std::string> out;
  for (const std::string_view line : base::split(mountinfo, '\n')) {
    const auto words = base::split(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() > kPoint && words.end() - dash > 2 && keeps_in_memory(std::string(dash[1])) &&
        !words[kPoint].starts_with("/sys/")) {
      out.emplace_back(words[kPoint]);
    }
  }
  return out;
}

}  // namespace

bool MemoryFiles::is_in_memory(const std::string& path) const {
  return path.starts_with("/memfd:") || path.starts_with("/SYSV") || path.starts_with("/dev/zero") ||
         keeps_in_memory(model::file_system_of(mountinfo_, path).type);
}

std::optional<MappedKind> MemoryFiles::kind_of(const MemoryMap& map) const {
  if (!map.path.starts_with('/')) {
    return std::nullopt;
  }
  if (map.shared) {
    return is_in_memory(map.path) ? MappedKind::shared : MappedKind::dirty;
  }
  return map.no_file > 0 ? std::optional(MappedKind::changed) : std::nullopt;
}

void MemoryFiles::add(MappedKind kind, const std::string& path, int64_t bytes, base::Rank owner) {
  const Key key(kind, path);
  if (bytes <= 0 || (files_.size() >= kMostFiles && !files_.contains(key))) {
    return;
  }
  File& file = files_[key];
  file.bytes = std::max(file.bytes, bytes);
  if (owner != base::kNoRank) {
    file.owners.insert(owner);
  }
}

void MemoryFiles::add_mounts(const base::ProcFs& proc, base::Pid pid) {
  const std::string root = proc.path(pid, "root");
  for (const std::string& mount : memory_mounts(mountinfo_)) {
    struct stat top {};
    if (::stat((root + mount).c_str(), &top) != 0) {
      continue;
    }
    std::error_code ec;
    std::filesystem::recursive_directory_iterator it(
        root + mount, std::filesystem::directory_options::skip_permission_denied, ec);
    for (size_t seen = 0; !ec && it != std::filesystem::recursive_directory_iterator() && seen < kMostFiles;
         it.increment(ec), ++seen) {
      struct stat file {};
      const bool known = ::lstat(it->path().c_str(), &file) == 0 && file.st_dev == top.st_dev;
      if (it.depth() >= kMostLevels || !known) {
        it.disable_recursion_pending();
      }
      if (known && S_ISREG(file.st_mode)) {
        add(MappedKind::shared, it->path().string().substr(root.size()), bytes_of(file), base::kNoRank);
      }
    }
  }
}

void MemoryFiles::add_maps(const std::vector<MemoryMap>& maps, base::Rank owner) {
  std::map<Key, int64_t> sums;  // one file is often mapped in pieces
  for (const MemoryMap& map : maps) {
    if (const auto kind = kind_of(map)) {
      sums[{*kind, map.path}] += *kind == MappedKind::shared    ? map.resident
                                 : *kind == MappedKind::changed ? map.no_file
                                                                : map.changed;
    }
  }
  for (const auto& [key, bytes] : sums) {
    add(key.first, key.second, bytes, owner);
  }
}

void MemoryFiles::add_open(const base::ProcFs& proc, base::Pid pid, base::Rank owner) {
  constexpr std::string_view kDeleted = " (deleted)";
  for (int fd = 0; fd < kMostOpenFiles; ++fd) {
    std::string path = proc.link(pid, fmt::format("fd/{}", fd));
    const bool deleted = path.ends_with(kDeleted);
    if (deleted) {
      path.resize(path.size() - kDeleted.size());
    }
    struct stat file {};
    // A file with a name has been found below its mount point.
    if (path.starts_with('/') && (deleted || files_.contains({MappedKind::shared, path})) &&
        is_in_memory(path) && ::stat(proc.path(pid, fmt::format("fd/{}", fd)).c_str(), &file) == 0) {
      add(MappedKind::shared, path, bytes_of(file), owner);
    }
  }
}

int64_t MemoryFiles::shared_bytes() const {
  int64_t out = 0;
  for (const auto& [key, file] : files_) {
    out += key.first == MappedKind::shared ? file.bytes : 0;
  }
  return out;
}

std::map<MemoryFiles::Key, MemoryFiles::Sum> MemoryFiles::sums() const {
  std::map<Key, Sum> out;
  for (const auto& [key, file] : files_) {
    Sum& sum = out[{key.first, common_name(key.second)}];
    sum.bytes += file.bytes;
    sum.name = sum.count++ == 0 ? key.second : std::string();
    sum.owners.insert(file.owners.begin(), file.owners.end());
  }
  return out;
}

std::vector<model::MappedMemory> MemoryFiles::list(const MemoryFiles* before) const {
  const std::map<Key, Sum> known = before == nullptr ? std::map<Key, Sum>() : before->sums();
  std::vector<model::MappedMemory> out;
  for (const auto& [key, sum] : sums()) {
    const auto had = known.find(key);
    const int64_t bytes = sum.bytes - (had == known.end() ? 0 : had->second.bytes);
    if (bytes >= kLeastListed) {
      out.push_back({.kind = key.first,
                     .name = base::sanitize(sum.name.empty() ? key.second : sum.name),
                     .bytes = bytes,
                     .count = sum.count,
                     .rank = sum.owners.size() == 1 ? *sum.owners.begin() : base::kNoRank});
    }
  }
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  out.resize(std::min(out.size(), kMostListed));
  return out;
}

}  // namespace xpurun::launcher
