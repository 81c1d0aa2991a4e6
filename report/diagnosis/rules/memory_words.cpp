#include "report/diagnosis/rules/memory_words.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/wording.h"

#include <algorithm>

namespace xpurun::report {

using base::tr;

std::string growth_words(const model::MemoryGrowth& growth) {
  const auto size = [](double bytes) {
    return base::human_size(static_cast<uint64_t>(std::max(bytes, 0.0)));
  };
  const auto grown = static_cast<double>(growth.to_bytes - growth.from_bytes);
  const std::string from = size(static_cast<double>(growth.from_bytes));
  const std::string to = size(static_cast<double>(growth.to_bytes));
  if (growth.until_step > growth.since_step) {
    return tr("{} a step, from {} at step {} to {} at step {}",
              size(grown / static_cast<double>(growth.until_step - growth.since_step)), from,
              growth.since_step, to, growth.until_step);
  }
  const double seconds = std::max(growth.until_s - growth.since_s, 1.0);
  return tr("{} a minute, from {} to {} within {}", size(60 * grown / seconds), from, to,
            base::human_duration(seconds));
}

std::string last_seen_words(const Ending& e) {
  const model::ProcessRecord& p = *e.process;
  const std::string at = p.place.empty() ? "" : tr("was last seen in {}", place(p.place));
  const std::string ram =
      p.rss_bytes > 0 ? tr("had {} in RAM", base::human_size(static_cast<uint64_t>(p.rss_bytes))) : "";
  const std::string memory = ram.empty() || p.growth.empty()
                                 ? ram
                                 : tr("{}; its memory had grown by {}", ram, growth_words(p.growth));
  return at.empty() && memory.empty() ? ""
         : at.empty()                 ? tr("; it {}", memory)
         : memory.empty()             ? tr("; it {}", at)
                                      : tr("; it {} and {}", memory, at);
}

std::vector<std::string> gpu_memory_words(const model::RunManifest& run, const model::ProcessRecord& rank) {
  std::vector<std::string> out;
  const auto size = [](int64_t bytes) {
    return base::human_size(static_cast<uint64_t>(std::max<int64_t>(bytes, 0)));
  };
  if (rank.gpu_memory.empty()) {
    return out;
  }
  int64_t least = 0;
  int64_t most = 0;
  model::RankSet others;
  for (const model::ProcessRecord& p : run.processes) {
    if (p.role == model::ProcessRole::rank && p.rank != rank.rank && !p.gpu_memory.empty()) {
      const int64_t peak = p.gpu_memory.peak_bytes;
      least = others.empty() ? peak : std::min(least, peak);
      most = std::max(most, peak);
      others.insert(p.rank);
    }
  }
  const std::string own = size(rank.gpu_memory.peak_bytes);
  if (others.empty()) {
    out.push_back(tr("before, PyTorch had allocated at most {} of the GPU's {}", own,
                     size(rank.gpu_memory.total_bytes)));
  } else {
    out.push_back(tr("before, PyTorch had allocated at most {} of the GPU's {} on rank {}, and {} on {}", own,
                     size(rank.gpu_memory.total_bytes), rank.rank,
                     least == most ? size(most) : tr("{} to {}", size(least), size(most)),
                     rank_words(others)));
  }
  if (!rank.gpu_memory.growth.empty()) {
    out.push_back(
        tr("the GPU memory of rank {} had grown by {}", rank.rank, growth_words(rank.gpu_memory.growth)));
  }
  return out;
}

std::string group_words(const model::RunManifest& run) {
  const model::MemoryGroup& group = run.memory;
  if (group.empty() || run.nodes.size() > 1) {
    return {};
  }
  const std::string limit =
      group.limit_bytes > 0
          ? tr(", its limit is {}", base::human_size(static_cast<uint64_t>(group.limit_bytes)))
          : tr(", it has no limit");
  return group.oom_kills == 1
             ? tr("the kernel killed 1 process of the memory control group {} for lack of memory{}",
                  base::sanitize(group.path), limit)
         : group.oom_kills > 0
             ? tr("the kernel killed {} processes of the memory control group {} for lack of memory{}",
                  group.oom_kills, base::sanitize(group.path), limit)
             : tr("the kernel killed no process of the memory control group {} for lack of memory{}",
                  base::sanitize(group.path), limit);
}

}  // namespace xpurun::report
