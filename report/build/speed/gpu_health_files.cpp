#include "report/build/speed/gpu_health_files.h"

#include <algorithm>
#include <filesystem>
#include <limits>

namespace xpurun::report {

namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr int64_t kLargestShiftNs = int64_t{86'400'000} * 1'000'000'000;

}  // namespace

GpuHealthFiles::GpuHealthFiles(const JobRuns& job) {
  for (const NodeRun& node : job.nodes) {
    const std::string path = node.path + "/" + std::string(model::kGpuHealthFile);
    std::error_code ec;
    if (node.path.empty() || !std::filesystem::exists(path, ec)) {
      continue;
    }
    if (auto health = model::load_gpu_health(path)) {
      nodes_.emplace_back(std::move(*health),
                          std::clamp(node.entry.offset_ns, -kLargestShiftNs, kLargestShiftNs));
    } else {
      notes_.push_back(base::to_line(health.error()));
    }
  }
}

void GpuHealthFiles::add(const RankRecord& rank) {
  for (const model::EventFile& file : rank.events) {
    if (!file.header.gpu_uuid.empty()) {
      uuids_[rank.rank] = file.header.gpu_uuid;
    }
  }
}

model::GpuCapture GpuHealthFiles::between(int64_t from_wall_ns, int64_t until_wall_ns) const {
  model::GpuCapture out;
  for (const auto& [health, offset_ns] : nodes_) {
    const auto clocks = health.clocks(std::clamp(from_wall_ns, int64_t{0}, kNever / 2) + offset_ns,
                                      std::clamp(until_wall_ns, int64_t{0}, kNever / 2) + offset_ns);
    for (const auto& [rank, uuid] : uuids_) {
      for (const model::GpuClocks& one : clocks) {
        if (one.uuid == uuid) {
          out.clocks.push_back(one);
          out.clocks.back().rank = rank;
        }
      }
    }
  }
  return out;
}

}  // namespace xpurun::report
