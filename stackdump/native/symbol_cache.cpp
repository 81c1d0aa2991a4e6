#include "stackdump/native/symbol_cache.h"

#include "common/base/bytes.h"
#include "common/base/hash.h"
#include "common/base/os/io.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

namespace xpurun::stackdump {

namespace {

constexpr char kCacheMagic[8] = {'X', 'P', 'S', 'Y', 'M', '0', '3', '\n'};
constexpr size_t kMaxFile = size_t{32} << 20;
constexpr size_t kMaxCachedName = SymbolCache::kMaxName;
constexpr time_t kTouchAfterS = 24 * 3600;  // keeps files in use from being the oldest
constexpr std::string_view kSuffix = ".sym";

struct CacheHeader {
  char magic[8];
  uint64_t checksum;  // XXH3 of everything after the header
  uint32_t count;
  uint32_t id_size;  // the build id comes first
};

// Both lists ascend. Where ranges overlap, the entry that begins earlier stays.
std::vector<SymbolRange> merge(std::vector<SymbolRange> a, const std::vector<SymbolRange>& b) {
  a.insert(a.end(), b.begin(), b.end());
  std::stable_sort(a.begin(), a.end(),
                   [](const SymbolRange& x, const SymbolRange& y) { return x.lo < y.lo; });
  std::vector<SymbolRange> out;
  for (SymbolRange& r : a) {
    if (r.lo < r.hi && (out.empty() || r.lo >= out.back().hi)) {
      out.push_back(std::move(r));
    }
  }
  return out;
}

}  // namespace

std::string encode_symbols(const std::vector<SymbolRange>& ranges, const std::string& build_id) {
  std::string body = build_id;
  for (const SymbolRange& r : ranges) {
    const std::string_view name = std::string_view(r.name).substr(0, kMaxCachedName);
    base::append_bytes(body, r.lo);
    base::append_bytes(body, r.hi);
    base::append_bytes(body, r.begin);
    base::append_bytes(body, static_cast<uint32_t>(name.size()));
    body += name;
  }
  CacheHeader h{};
  std::memcpy(h.magic, kCacheMagic, sizeof kCacheMagic);
  h.checksum = base::hash_text(body);
  h.count = static_cast<uint32_t>(ranges.size());
  h.id_size = static_cast<uint32_t>(build_id.size());
  std::string out;
  base::append_bytes(out, h);
  return out + body;
}

std::vector<SymbolRange> decode_symbols(const std::string& content, const std::string& build_id) {
  std::string_view in = content;
  CacheHeader h{};
  if (!base::take_bytes(in, h) || std::memcmp(h.magic, kCacheMagic, sizeof kCacheMagic) != 0 ||
      h.checksum != base::hash_text(in) || h.id_size != build_id.size() || !in.starts_with(build_id)) {
    return {};
  }
  in.remove_prefix(h.id_size);
  std::vector<SymbolRange> out;
  for (uint32_t i = 0; i < h.count; ++i) {
    SymbolRange r;
    uint32_t size = 0;
    if (!base::take_bytes(in, r.lo) || !base::take_bytes(in, r.hi) || !base::take_bytes(in, r.begin) ||
        !base::take_bytes(in, size) || size > in.size() || size > kMaxCachedName || r.lo >= r.hi ||
        (!out.empty() && r.lo < out.back().hi)) {
      return {};
    }
    r.name = std::string(in.substr(0, size));
    in.remove_prefix(size);
    out.push_back(std::move(r));
  }
  return in.empty() ? out : std::vector<SymbolRange>();
}

SymbolCache::SymbolCache(std::string directory, uint64_t max_bytes)
    : directory_(std::move(directory)), max_bytes_(max_bytes) {}

std::string SymbolCache::default_directory() {
  const auto absolute = [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && value[0] == '/' ? std::string(value) : std::string();
  };
  if (const std::string cache = absolute("XDG_CACHE_HOME"); !cache.empty()) {
    return cache + "/xpurun/sym";
  }
  const std::string home = absolute("HOME");
  return home.empty() ? "" : home + "/.cache/xpurun/sym";
}

// A cache file that another user could have written is not trusted.
bool SymbolCache::usable() {
  if (usable_ < 0) {
    struct stat st {};
    usable_ = !directory_.empty() && base::make_dirs(directory_).has_value() &&
                      ::stat(directory_.c_str(), &st) == 0 && st.st_uid == ::geteuid() &&
                      (st.st_mode & (S_IWGRP | S_IWOTH)) == 0
                  ? 1
                  : 0;
  }
  return usable_ == 1;
}

std::string SymbolCache::path_of(const Key& key) const {
  return fmt::format("{}/{}-{:x}-{:x}{}", directory_, key.build_id, key.image_size, key.debug_size, kSuffix);
}

std::vector<SymbolRange> SymbolCache::read(const Key& key) const {
  const auto content = base::read_file(path_of(key), kMaxFile);
  return content ? decode_symbols(*content, key.build_id) : std::vector<SymbolRange>();
}

std::vector<SymbolRange> SymbolCache::load(const Key& key) {
  if (!usable()) {
    return {};
  }
  auto out = read(key);
  struct stat st {};
  const std::string path = path_of(key);
  // The time of the last use, for evict(). Written at most once a day, because reads should not cause writes.
  if (!out.empty() && ::stat(path.c_str(), &st) == 0 && ::time(nullptr) - st.st_mtime > kTouchAfterS) {
    ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
  }
  return out;
}

void SymbolCache::add(const Key& key, const std::vector<SymbolRange>& ranges) {
  auto& all = added_[key];
  all.insert(all.end(), ranges.begin(), ranges.end());
}

void SymbolCache::save() {
  if (added_.empty() || !usable()) {
    return;
  }
  for (const auto& [key, ranges] : added_) {
    auto all = merge(read(key), merge({}, ranges));
    if (all.size() > kMaxRanges) {
      all = merge({}, ranges);  // start over: the program's addresses have changed
    }
    if (all.size() <= kMaxRanges) {
      // After an error such as a full disk, the next dump looks the names up again.
      static_cast<void>(base::write_file_atomic(path_of(key), encode_symbols(all, key.build_id)));
    }
  }
  added_.clear();
  evict();
}

void SymbolCache::evict() const {
  struct File {
    std::string path;
    time_t used;
    uint64_t size;
  };
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(directory_.c_str()), &::closedir);
  if (!dir) {
    return;
  }
  std::vector<File> files;
  uint64_t total = 0;
  while (const dirent* entry = ::readdir(dir.get())) {
    struct stat st {};
    std::string path = fmt::format("{}/{}", directory_, entry->d_name);
    // Includes temporary files of killed writers.
    if (::lstat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode)) {
      total += static_cast<uint64_t>(st.st_size);
      files.push_back({std::move(path), st.st_mtime, static_cast<uint64_t>(st.st_size)});
    }
  }
  if (total <= max_bytes_) {
    return;
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.used < b.used; });
  for (const File& f : files) {
    if (total <= max_bytes_ / 4 * 3) {
      break;
    }
    ::unlink(f.path.c_str());
    total -= f.size;
  }
}

}  // namespace xpurun::stackdump
