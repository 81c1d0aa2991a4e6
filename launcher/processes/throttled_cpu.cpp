#include "launcher/processes/throttled_cpu.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

namespace xpurun::launcher {

namespace {

constexpr size_t kLongestFile = 64 * 1024;
constexpr int64_t kUsualPeriodNs = 100'000'000;
constexpr size_t kMostLevels = 16;
constexpr base::MonoNs kLookNs = 1'000'000'000;

std::string content(const std::string& path) {
  return base::read_file_start(path, kLongestFile).value_or("");
}

// The number after `key` in lines of "key number"; negative: none.
int64_t number_of(std::string_view text, std::string_view key) {
  for (const std::string_view line : base::split(text, '\n')) {
    int64_t number = -1;
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ' ') {
      const char* begin = line.data() + key.size() + 1;
      return std::from_chars(begin, line.data() + line.size(), number).ec == std::errc() ? number : -1;
    }
  }
  return -1;
}

struct Membership {
  std::string mount;  // below the root of the control groups
  std::string path;
};

// Version 2 has one line "0::/path"; version 1 has one line for each set of controllers:
// "4:cpu,cpuacct:/path".
std::vector<Membership> memberships(std::string_view text) {
  std::vector<Membership> out;
  for (const std::string_view line : base::split(text, '\n')) {
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) {
      continue;
    }
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string path(line.substr(second + 1));
    const auto names = base::split(controllers, ',');
    if (controllers.empty()) {
      out.push_back({"", path});
      out.push_back({"/unified", path});  // beside version 1
    } else if (std::find(names.begin(), names.end(), "cpu") != names.end()) {
      out.push_back({fmt::format("/{}", controllers), path});
      out.push_back({"/cpu", path});
    }
  }
  return out;
}

}  // namespace

bool ThrottledCpu::read(Level& level) {
  const std::string stat = content(level.directory + "/cpu.stat");
  const int64_t periods = number_of(stat, "nr_throttled");
  const int64_t us = number_of(stat, "throttled_usec");  // version 2
  const int64_t ns = number_of(stat, "throttled_time");  // version 1
  if (periods < 0 || (us < 0 && ns < 0)) {
    return false;
  }
  level.throttled_periods = static_cast<uint64_t>(periods);
  level.throttled_ns = ns >= 0 ? ns : std::min(us, INT64_MAX / 1000) * 1000;
  return true;
}

int64_t ThrottledCpu::period_ns(const Level& level) {
  const std::string v2 = content(level.directory + "/cpu.max");  // "200000 100000"
  const size_t blank = v2.find(' ');
  const std::string v1 = blank == std::string::npos ? content(level.directory + "/cpu.cfs_period_us") : "";
  const std::string_view text =
      blank == std::string::npos ? std::string_view(v1) : std::string_view(v2).substr(blank + 1);
  int64_t us = 0;
  std::from_chars(text.data(), text.data() + text.size(), us);
  return us > 0 && us <= 1'000'000 ? us * 1000 : kUsualPeriodNs;
}

// Every group on the way to the root may have a limit. A container may see its own group as the root, while
// its path is that of the host: only the root is there then.
bool ThrottledCpu::find_levels(base::MonoNs now) {
  if (looked_at_ != 0 && now - looked_at_ < kLookNs) {
    return false;
  }
  looked_at_ = now;
  std::string text = proc_.text(pid_, "cgroup");
  if (text.empty() || text == memberships_) {
    return false;
  }
  memberships_ = std::move(text);
  levels_.clear();
  for (const Membership& one : memberships(memberships_)) {
    const std::string mount = cgroups_ + one.mount;
    std::string path = one.path.find("/..") == std::string::npos ? one.path : "";
    while (levels_.size() < kMostLevels) {
      while (path.ends_with('/')) {
        path.pop_back();
      }
      Level level{.directory = mount + path};
      if (read(level)) {
        levels_.push_back(std::move(level));
      }
      if (path.empty()) {
        break;
      }
      path.erase(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
    if (!levels_.empty()) {
      break;
    }
  }
  return true;
}

int64_t ThrottledCpu::sample(base::MonoNs now) {
  if (find_levels(now)) {
    at_ = now;
    return levels_.empty() && total_ns_ == 0 ? -1 : total_ns_;
  }
  int64_t most = 0;
  for (Level& level : levels_) {
    const Level before = level;
    if (!read(level) || level.throttled_periods <= before.throttled_periods) {
      continue;
    }
    // The kernel adds the times of all CPUs. No period is throttled for longer than its length.
    const auto periods = std::min<uint64_t>(level.throttled_periods - before.throttled_periods, 1'000'000);
    most = std::max(most, std::min(level.throttled_ns - before.throttled_ns,
                                   static_cast<int64_t>(periods) * period_ns(level)));
  }
  total_ns_ += std::min(most, std::max<int64_t>(now - at_, 0));
  at_ = now;
  return levels_.empty() && total_ns_ == 0 ? -1 : total_ns_;
}

}  // namespace xpurun::launcher
