#include "report/build/capture_files.h"

#include "common/base/clock.h"
#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "report/profile/captured_functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

namespace xpurun::report {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMostCaptures = 20;  // of a node
constexpr int64_t kLargestOffsetNs =
    int64_t{86'400'000} * 1'000'000'000;  // of the clock of a node: 1,000 days
constexpr size_t kLargestFile = size_t{256} << 20;

struct Found {
  const NodeRun* node;
  std::string dir;  // "captures/1"
  Profile profile;
};

base::Result<Profile> read_profile(const std::string& path) {
  XPURUN_TRY_ASSIGN(const std::string text, base::read_regular_file(path, kLargestFile));
  auto profile = profile_from_json(text);
  return profile ? std::move(profile) : base::fail(base::Error(profile.error()).context(path));
}

// By number, the newest ones.
std::vector<std::string> capture_dirs(const std::string& run_dir) {
  std::vector<int64_t> numbers;
  std::error_code ec;
  for (auto it = fs::directory_iterator(run_dir + "/captures", ec); !ec && it != fs::directory_iterator();
       it.increment(ec)) {
    if (const auto n = base::parse_int(it->path().filename().string())) {
      numbers.push_back(*n);
    }
  }
  std::sort(numbers.begin(), numbers.end());
  if (numbers.size() > kMostCaptures) {
    numbers.erase(numbers.begin(), numbers.end() - kMostCaptures);
  }
  std::vector<std::string> out;
  for (const int64_t n : numbers) {
    out.push_back(fmt::format("captures/{}", n));
  }
  return out;
}

int64_t end_of(const Profile& p) {
  return p.wall_ns + base::s_to_ns(p.seconds);
}

}  // namespace

Captures read_captures(const JobRuns& job) {
  Captures out;
  std::vector<Found> found;
  for (const NodeRun& node : job.nodes) {
    for (const std::string& dir : node.path.empty() ? std::vector<std::string>() : capture_dirs(node.path)) {
      const std::string path = node.path + "/" + dir + "/profile.json";
      std::error_code ec;
      if (!fs::exists(path, ec)) {
        continue;  // under way, or failed
      }
      auto profile = read_profile(path);
      if (profile) {
        profile->wall_ns -= std::clamp(node.entry.offset_ns, -kLargestOffsetNs, kLargestOffsetNs);
        found.push_back({&node, dir, std::move(*profile)});
      } else {
        out.notes.push_back(base::to_line(profile.error()));
      }
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Found& a, const Found& b) { return a.profile.wall_ns < b.profile.wall_ns; });
  for (size_t first = 0; first < found.size();) {
    std::vector<Profile> parts;
    std::set<const NodeRun*> nodes;
    const std::string dir = found[first].dir;
    const int64_t end = end_of(found[first].profile);
    while (first < found.size() && found[first].profile.wall_ns <= end &&
           nodes.insert(found[first].node).second) {
      parts.push_back(std::move(found[first++].profile));
    }
    model::CaptureReport report = captured_functions(merged_profile(std::move(parts)));
    report.dir = dir;
    out.reports.push_back(std::move(report));
  }
  return out;
}

base::Result<model::CaptureReport> read_capture(const std::string& path) {
  XPURUN_TRY_ASSIGN(const Profile profile, read_profile(path));
  return captured_functions(profile);
}

}  // namespace xpurun::report
