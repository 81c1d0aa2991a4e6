#include "report/build/capture_files.h"

#include "common/base/clock.h"
#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/timing/event_file.h"
#include "report/profile/captured_functions.h"
#include "report/profile/captured_work.h"
#include "report/profile/gil_holders.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

namespace xpurun::report {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMostCaptures = 20;  // of a node
constexpr size_t kLargestFile = size_t{256} << 20;

// Event files of an analysis; each may have half a million events.
constexpr size_t kMostProfiles = 256;

struct Found {
  const NodeRun* node;
  std::string dir;  // "captures/1"
  Profile profile;
};

// When some work was running on the GPU.
GpuActivity activity_of(const model::RankActivity& rank, const model::EventFile& file) {
  GpuActivity out{.begin_ns = rank.begin_mono_ns, .end_ns = rank.begin_mono_ns + base::s_to_ns(rank.seconds)};
  std::vector<Interval> busy;
  for (const auto& [event, communicator] : file.events) {
    const auto op = file.ops.find(event.op);
    const bool on_gpu =
        op != file.ops.end() && op->second.key.op_class != static_cast<uint8_t>(wire::OpClass::host);
    if (on_gpu && event.begin_ns <= INT64_MAX / 2 && event.duration_ns <= INT64_MAX / 2) {
      const auto begin = static_cast<int64_t>(event.begin_ns);
      busy.push_back({begin, begin + static_cast<int64_t>(event.duration_ns)});
    }
  }
  out.busy = united(std::move(busy));
  return out;
}

// The records of CUPTI and NVML in the directories of one capture.
class GpuPart {
 public:
  explicit GpuPart(size_t& files, const RankRoles& roles = {}, const CommunicatorLinks& links = {})
      : files_(files), table_(roles, links) {}

  void add(const std::string& directory, Profile& profile) {
    std::error_code ec;
    gpus_.clear();
    std::vector<model::RankActivity> ranks;
    if (const std::string path = directory + "/gpu.json"; fs::exists(path, ec)) {
      if (auto found = model::load_gpu_capture(path)) {
        ranks = std::move(found->ranks);
        out_.step_before_s = std::max(out_.step_before_s, found->step_before_s);
        out_.step_during_s = std::max(out_.step_during_s, found->step_during_s);
      } else {
        notes_.push_back(base::to_line(found.error()));
      }
    }
    for (model::RankActivity& rank : ranks) {
      if (rank.has_records()) {
        read(directory, rank);
      }
    }
    mark_idle(profile, gpus_);
    add_clocks(directory, ranks);
    std::move(ranks.begin(), ranks.end(), std::back_inserter(out_.ranks));
  }

  void finish(model::CaptureReport& report) {
    out_.work = table_.work();
    report.gpu = std::move(out_);
    std::move(notes_.begin(), notes_.end(), std::back_inserter(report.notes));
  }

 private:
  void read(const std::string& directory, model::RankActivity& rank) {
    if (files_ == 0) {
      if (!said_) {
        notes_.push_back(fmt::format("only {} files of GPU activity were read", kMostProfiles));
        said_ = true;
      }
      return;
    }
    --files_;
    const std::string path = directory + "/" + std::string(base::base_name(rank.file));
    const auto file = model::load_event_file(path);
    if (!file) {
      notes_.push_back(base::to_line(file.error()));
      return;
    }
    const auto samples = read_samples(directory, rank.sampling);
    table_.add(rank, *file, samples ? &*samples : nullptr);
    gpus_.emplace(rank.rank, activity_of(rank, *file));
  }

  // Samples without kernels beside them say nothing, so they are read with the event file only.
  std::optional<model::ResourceFile> read_samples(const std::string& directory,
                                                  const model::ResourceSampling& sampling) {
    if (sampling.file.empty()) {
      return std::nullopt;
    }
    auto file = model::load_resource_file(directory + "/" + std::string(base::base_name(sampling.file)));
    if (!file) {
      notes_.push_back(base::to_line(file.error()));
      return std::nullopt;
    }
    return std::move(*file);
  }

  void add_clocks(const std::string& directory, const std::vector<model::RankActivity>& ranks) {
    std::error_code ec;
    const std::string path = directory + "/clocks.json";
    if (!fs::exists(path, ec)) {
      return;
    }
    const auto samples = model::load_clock_samples(path);
    if (!samples) {
      notes_.push_back(base::to_line(samples.error()));
      return;
    }
    for (const model::RankActivity& rank : ranks) {
      for (const model::GpuClocks& gpu : samples->gpus) {
        if (!rank.gpu_uuid.empty() && gpu.uuid == rank.gpu_uuid) {
          out_.clocks.push_back(gpu);
          out_.clocks.back().rank = rank.rank;
        }
      }
    }
  }

  size_t& files_;  // that may still be read
  bool said_ = false;
  model::GpuCapture out_;
  CapturedWorkTable table_;
  std::map<base::Rank, GpuActivity> gpus_;  // of the latest directory
  std::vector<std::string> notes_;
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

model::CaptureReport capture_of(Profile profile, const RankRoles& roles) {
  std::vector<model::GilHolder> holders = take_gil_holders(profile);
  model::CaptureReport out = captured_functions(profile, roles);
  out.gil_holders = std::move(holders);
  if (const model::GilHolder* holder = blamed_holder(out, {})) {
    const bool alike = std::all_of(out.functions.begin(), out.functions.end(),
                                   [](const auto& f) { return f.ranks.empty() || f.waits; });
    out.sentence = alike || out.sentence.empty() ? holder_words(*holder)
                                                 : base::tr("{}; {}", holder_words(*holder), out.sentence);
  }
  return out;
}

int64_t end_of(const Profile& p) {
  return p.wall_ns + base::s_to_ns(p.seconds);
}

}  // namespace

Captures read_captures(const JobRuns& job, const RankRoles& roles, const CommunicatorLinks& links) {
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
        profile->wall_ns -= clock_offset_ns(node);
        found.push_back({&node, dir, std::move(*profile)});
      } else {
        out.notes.push_back(base::to_line(profile.error()));
      }
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Found& a, const Found& b) { return a.profile.wall_ns < b.profile.wall_ns; });
  size_t files = kMostProfiles;
  for (size_t first = 0; first < found.size();) {
    std::vector<Profile> parts;
    GpuPart gpu(files, roles, links);
    std::set<const NodeRun*> nodes;
    const std::string dir = found[first].dir;
    const int64_t end = end_of(found[first].profile);
    while (first < found.size() && found[first].profile.wall_ns <= end &&
           nodes.insert(found[first].node).second) {
      gpu.add(found[first].node->path + "/" + found[first].dir, found[first].profile);
      parts.push_back(std::move(found[first++].profile));
    }
    model::CaptureReport report = capture_of(merged_profile(std::move(parts)), roles);
    report.dir = dir;
    gpu.finish(report);
    out.reports.push_back(std::move(report));
  }
  return out;
}

base::Result<model::CaptureReport> read_capture(const std::vector<std::string>& paths) {
  std::vector<Profile> parts;
  std::vector<base::Error> errors;
  size_t files = kMostProfiles;
  GpuPart gpu(files);
  for (const std::string& path : paths) {
    auto profile = read_profile(path);
    if (profile) {
      gpu.add(fs::path(path).parent_path().string(), *profile);
      parts.push_back(std::move(*profile));
    } else {
      errors.push_back(profile.error());
    }
  }
  if (parts.empty()) {
    return base::fail(errors.empty() ? base::Error{.what = "there is no capture"} : errors.front());
  }
  model::CaptureReport out = capture_of(merged_profile(std::move(parts)), {});
  gpu.finish(out);
  for (const base::Error& error : errors) {
    out.notes.push_back(base::to_line(error));
  }
  return out;
}

}  // namespace xpurun::report
