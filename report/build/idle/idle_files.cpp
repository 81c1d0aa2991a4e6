#include "report/build/idle/idle_files.h"

#include "common/base/clock.h"
#include "common/base/strings.h"
#include "common/model/speed/gpu_capture.h"
#include "common/model/speed/trace_manifest.h"
#include "common/model/timing/event_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

namespace xpurun::report {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMostRecords = 4;
// Each may have a million events.
constexpr size_t kMostEventFiles = 512;
constexpr int64_t kLargestClockOffsetNs = int64_t{86'400'000} * 1'000'000'000;  // 1,000 days
// Nodes begin a trace with the same second, or one later.
constexpr int64_t kTogetherNs = 1'500'000'000;

std::vector<std::string> directories(const std::string& path) {
  std::vector<std::string> out;
  std::error_code ec;
  for (auto it = fs::directory_iterator(path, ec); !ec && it != fs::directory_iterator(); it.increment(ec)) {
    std::error_code other;
    if (it->is_directory(other) && !it->is_symlink(other)) {
      out.push_back(it->path().filename().string());
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

IdleFiles::IdleFiles(const JobRuns& job, const model::RankSet& ranks) : ranks_(ranks) {
  for (const NodeRun& node : job.nodes) {
    if (!node.path.empty()) {
      find(node, "traces");
      find(node, "captures");
    }
  }
  std::stable_sort(records_.begin(), records_.end(),
                   [](const Record& a, const Record& b) { return a.wall_ns < b.wall_ns; });
  keep_newest();
  for (const Record& record : records_) {
    analyses_.emplace_back(record.dir, record.wall_ns);
  }
}

void IdleFiles::find(const NodeRun& node, const char* kind) {
  for (const std::string& name : directories(fmt::format("{}/{}", node.path, kind))) {
    find_files(node, fmt::format("{}/{}", kind, name));
  }
}

void IdleFiles::find_files(const NodeRun& node, const std::string& dir) {
  const std::string path = node.path + "/" + dir;
  const int64_t offset = std::clamp(node.entry.offset_ns, -kLargestClockOffsetNs, kLargestClockOffsetNs);
  Record out{.dir = dir, .nodes = {{&node, true}}};
  const auto put = [&](base::Rank rank, const std::string& file, bool open_end) {
    if (rank >= 0 && rank < base::kHighestRank && !file.empty() &&
        (ranks_.empty() || ranks_.contains(rank))) {
      out.files[rank] = {path + "/" + std::string(base::base_name(file)), open_end, &node};
    }
  };
  std::error_code ec;
  if (fs::exists(path + "/gpu.json", ec)) {
    const auto capture = model::load_gpu_capture(path + "/gpu.json");
    if (!capture) {
      return;  // the captures are read elsewhere, which reports the error
    }
    for (const model::RankActivity& rank : capture->ranks) {
      if (rank.has_records()) {
        put(rank.rank, rank.file, false);
        out.wall_ns = out.wall_ns == 0 ? rank.begin_mono_ns : std::min(out.wall_ns, rank.begin_mono_ns);
      }
    }
    // From the clock of the files: gpu.json has no time of day.
    if (!out.files.empty()) {
      const auto file = model::load_event_file(out.files.begin()->second.path);
      if (file) {
        out.wall_ns += file->header.wall_ns - file->header.mono_ns - offset;
      }
    }
  } else if (fs::exists(path + "/trace.json", ec)) {
    const auto trace = model::load_trace_manifest(path + "/trace.json");
    if (!trace) {
      notes_.push_back(base::to_line(trace.error()));
      return;
    }
    if (!trace->has_all_gpu_work()) {
      return;
    }
    out.wall_ns = trace->start_wall_ns - offset;
    for (const model::TraceManifest::Rank& rank : trace->ranks) {
      put(rank.rank, rank.file, rank.events >= trace->count);
    }
  }
  if (!out.files.empty()) {
    join(std::move(out));
  }
}

void IdleFiles::join(Record record) {
  for (Record& known : records_) {
    const bool is_of_another_node = !known.nodes.contains(record.nodes.begin()->first);
    const bool alike = known.dir.starts_with("traces/") == record.dir.starts_with("traces/");
    if (is_of_another_node && alike && std::abs(known.wall_ns - record.wall_ns) <= kTogetherNs) {
      known.files.merge(record.files);
      known.nodes.merge(record.nodes);
      return;
    }
  }
  records_.push_back(std::move(record));
}

void IdleFiles::keep_newest() {
  size_t files = 0;
  size_t kept = 0;
  for (auto it = records_.rbegin(); it != records_.rend() && kept < kMostRecords; ++it) {
    files += it->files.size();
    if (files > kMostEventFiles && kept > 0) {
      break;
    }
    ++kept;
  }
  records_.erase(records_.begin(), records_.end() - static_cast<std::ptrdiff_t>(kept));
  for (Record& record : records_) {
    while (record.files.size() > kMostEventFiles) {
      record.files.erase(std::prev(record.files.end()));
    }
  }
}

void IdleFiles::read(size_t record, const RankRecord& rank, const File& file) {
  auto events = model::load_event_file(file.path);
  if (!events) {
    notes_.push_back(base::to_line(events.error()));
    return;
  }
  if (rank.host.empty()) {
    RankRecord other{.rank = rank.rank};
    other.offset_ns = events->header.wall_ns - events->header.mono_ns -
                      std::clamp(file.node->entry.offset_ns, -kLargestClockOffsetNs, kLargestClockOffsetNs);
    analyses_[record].add(std::move(*events), other, file.open_end);
  } else {
    analyses_[record].add(std::move(*events), rank, file.open_end);
  }
}

void IdleFiles::add(const RankRecord& rank) {
  for (size_t i = 0; i < records_.size(); ++i) {
    const auto found = records_[i].files.find(rank.rank);
    if (found != records_[i].files.end()) {
      read(i, rank, found->second);
      records_[i].files.erase(found);
    }
  }
}

std::vector<model::IdleTime> IdleFiles::finish() {
  std::vector<model::IdleTime> out;
  for (size_t i = 0; i < records_.size(); ++i) {
    for (const auto& [rank, file] : records_[i].files) {
      read(i, {.rank = rank}, file);
    }
    model::IdleTime idle = analyses_[i].finish();
    if (!idle.ranks.empty() || !idle.notes.empty()) {
      out.push_back(std::move(idle));
    }
  }
  return out;
}

}  // namespace xpurun::report
