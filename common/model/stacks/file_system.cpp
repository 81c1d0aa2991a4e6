#include "common/model/stacks/file_system.h"

#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <climits>
#include <vector>

namespace xpurun::model {

namespace {

constexpr std::array<std::string_view, 18> kServed = {
    "nfs", "nfs4", "cifs",   "smb3",     "ceph",     "lustre", "gpfs",  "beegfs",  "glusterfs",
    "9p",  "afs",  "wekafs", "virtiofs", "orangefs", "pvfs2",  "panfs", "quobyte", "fuseblk"};
constexpr std::array<std::string_view, 17> kVirtual = {
    "proc",   "sysfs",   "devtmpfs", "devpts", "tmpfs",     "ramfs",      "mqueue", "cgroup",  "cgroup2",
    "pipefs", "debugfs", "tracefs",  "bpf",    "hugetlbfs", "securityfs", "nsfs",   "configfs"};

template <size_t N>
bool contains(const std::array<std::string_view, N>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// The kernel writes blanks, tabs, newlines and backslashes as three octal digits: "\040".
std::string unescaped(std::string_view text) {
  std::string out;
  const auto digit = [](char c) { return c >= '0' && c <= '7'; };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && digit(text[i + 1]) && digit(text[i + 2]) &&
        digit(text[i + 3])) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool lies_below(std::string_view path, std::string_view mount) {
  return mount == "/" || path == mount ||
         (path.starts_with(mount) && path.size() > mount.size() && path[mount.size()] == '/');
}

}  // namespace

FileSystem file_system_of(std::string_view mountinfo, std::string_view path) {
  FileSystem out;
  if (!path.starts_with('/')) {
    return out;
  }
  for (const std::string_view line : base::split(mountinfo, '\n')) {
    // "36 35 98:0 /root /data rw,noatime master:1 - nfs4 10.0.0.7:/ds rw": the number of the fields before
    // the dash varies.
    constexpr size_t kPoint = 4;
    const auto words = base::split(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() <= kPoint || words.end() - dash < 3) {
      continue;
    }
    std::string mount = unescaped(words[kPoint]);
    if (lies_below(path, mount) && mount.size() >= out.mount.size()) {
      out = {.mount = std::move(mount), .type = unescaped(dash[1]), .source = unescaped(dash[2])};
    }
  }
  return out;
}

bool is_served(const FileSystem& fs) {
  return fs.type == "fuse" || fs.type.starts_with("fuse.") || contains(kServed, fs.type);
}

bool is_virtual(const FileSystem& fs) {
  return fs.empty() || contains(kVirtual, fs.type);
}

std::string file_system_words(const FileSystem& fs) {
  const bool meaningless = fs.source.empty() || fs.source == "none" || fs.source == fs.type;
  const std::string what = meaningless ? fs.type : fmt::format("{} {}", fs.type, fs.source);
  return base::sanitize(fmt::format("{} ({})", fs.mount, what));
}

int unanswered_requests(std::string_view mountstats, std::string_view mount) {
  // "device 10.0.0.7:/ds mounted on /data with fstype nfs4 statvers=1.1", then indented lines, among them
  // one "xprt: tcp port binds connects connect_time idle_time sent answered ..." per connection.
  constexpr size_t kSent = 7;  // udp has no connect_time and idle_time
  int64_t out = -1;
  bool here = false;
  for (const std::string_view line : base::split(mountstats, '\n')) {
    if (line.starts_with("device ")) {
      const size_t on = line.find(" mounted on ");
      const size_t with = line.find(" with fstype ");
      constexpr size_t kOnLength = 12;
      here = on != std::string_view::npos && with != std::string_view::npos && with >= on + kOnLength &&
             unescaped(line.substr(on + kOnLength, with - on - kOnLength)) == mount;
      continue;
    }
    const std::string_view text = base::trim(line);
    if (!here || !text.starts_with("xprt:")) {
      continue;
    }
    std::vector<std::string_view> words;
    for (const std::string_view word : base::split(text, ' ')) {
      for (const std::string_view part : base::split(word, '\t')) {
        if (!part.empty()) {
          words.push_back(part);
        }
      }
    }
    const size_t sent = words.size() > 1 && words[1] == "udp" ? kSent - 3 : kSent;
    if (words.size() <= sent + 1) {
      continue;
    }
    const auto requests = base::parse_int(words[sent]);
    const auto answers = base::parse_int(words[sent + 1]);
    if (requests && answers && *answers >= 0 && *requests >= *answers) {
      out = std::max<int64_t>(out, 0) + *requests - *answers;
    }
  }
  return static_cast<int>(std::min<int64_t>(out, INT_MAX));
}

}  // namespace xpurun::model
