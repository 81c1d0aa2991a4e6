#include "report/diagnosis/waits/gpu_work.h"

#include "common/base/tr.h"

#include <algorithm>
#include <cstdint>
#include <map>

namespace xpurun::report {

using model::GpuDevice;

namespace {

// Of GPUs with GPM (compute capability 9.0 and 10.0).
constexpr double kWarpsPerMultiprocessor = 64;
constexpr double kIdlePercent = 0.05;  // one of some 150 multiprocessors is 0.7 %
// NCCL's kernel while it waits, measured on H200 with NCCL 2.28 (bench/RESULTS.md): a block on each of 8 to
// 24 multiprocessors, of 16 to 19 warps; of the smallest sizes, one block of 3 warps. A block has at most 640
// threads and one more warp, and a communicator 64 channels.
constexpr double kMostPercent = 50;
constexpr double kMostWarps = 21.5;
constexpr double kLeastWarps = 2.5;
constexpr double kLeastWarpsOfLarge = 8;
constexpr uint64_t kLargeCount = 16384;  // elements

enum class GpuWork { unknown, nothing, nccl, other };

// The smallest call that the GPU may be in; 0 if there are calls of which the record has no size.
uint64_t least_count(const Facts& facts, base::Rank rank) {
  uint64_t least = UINT64_MAX;
  for (const model::RankCollectives& r : facts.collectives.ranks) {
    for (size_t i = 0; r.rank == rank && i < r.communicators.size(); ++i) {
      const model::Communicator& c = r.communicators[i];
      if (c.source != model::CallSource::nccl) {
        continue;
      }
      if (c.messages_done < c.messages ||
          (c.done < c.called && (c.calls.empty() || c.calls.front().sequence > c.done + 1))) {
        return 0;
      }
      for (const model::CollectiveCall& call : c.calls) {
        least = call.sequence > c.done ? std::min(least, call.count) : least;
      }
    }
  }
  return least == UINT64_MAX ? 0 : least;
}

GpuWork work_of(const GpuDevice& gpu, uint64_t count) {
  if (gpu.sm_active_percent < 0 || gpu.sm_occupancy_percent < 0) {
    return GpuWork::unknown;
  }
  if (gpu.sm_active_percent < kIdlePercent) {
    return GpuWork::nothing;
  }
  const double warps = warps_each(gpu);
  const bool fits = gpu.sm_active_percent <= kMostPercent && warps <= kMostWarps &&
                    warps >= (count >= kLargeCount ? kLeastWarpsOfLarge : kLeastWarps);
  return fits ? GpuWork::nccl : GpuWork::other;
}

size_t node_of(const RankView& v) {
  return v.record != nullptr ? v.record->node : 0;
}

const model::GpuProcess* process_on(const GpuDevice& gpu, const RankView& v) {
  const auto it = std::find_if(gpu.processes.begin(), gpu.processes.end(),
                               [&](const model::GpuProcess& p) { return p.pid == v.pid; });
  return gpu.node != node_of(v) || it == gpu.processes.end() ? nullptr : &*it;
}

// A rank may have a context on other GPUs, too: its own one holds most of its memory.
const GpuDevice* gpu_of(const RankView& v, const model::GpuState& gpus) {
  const GpuDevice* own = nullptr;
  int64_t most = 0;
  for (const GpuDevice& gpu : gpus.devices) {
    const model::GpuProcess* p = process_on(gpu, v);
    if (p != nullptr && p->memory_bytes > most) {
      own = &gpu;
      most = p->memory_bytes;
    }
  }
  return own;
}

bool only_ranks_use(const GpuDevice& gpu, const std::vector<RankView>& ranks) {
  return std::all_of(gpu.processes.begin(), gpu.processes.end(), [&](const model::GpuProcess& p) {
    return std::any_of(ranks.begin(), ranks.end(),
                       [&](const RankView& v) { return v.pid == p.pid && gpu.node == node_of(v); });
  });
}

}  // namespace

double warps_each(const GpuDevice& gpu) {
  return gpu.sm_active_percent < kIdlePercent
             ? 0
             : gpu.sm_occupancy_percent / gpu.sm_active_percent * kWarpsPerMultiprocessor;
}

void tell_kernels_apart(std::vector<RankView>& ranks, const Facts& facts) {
  std::map<const GpuDevice*, int> used;
  std::vector<GpuWork> works;
  bool some_nccl = false;
  for (const RankView& v : ranks) {
    const GpuDevice* gpu = gpu_of(v, facts.gpus);
    if (v.state != RankState::waiting || gpu == nullptr || !only_ranks_use(*gpu, ranks) || ++used[gpu] > 1) {
      return;
    }
    works.push_back(work_of(*gpu, least_count(facts, v.rank)));
    if (works.back() == GpuWork::unknown) {
      return;
    }
    some_nccl = some_nccl || works.back() == GpuWork::nccl;
  }
  for (size_t i = 0; some_nccl && i < ranks.size(); ++i) {
    RankView& v = ranks[i];
    if (works[i] == GpuWork::nccl || !v.wait || v.wait->kind != WaitKind::gpu) {
      continue;
    }
    v.wait->kind = WaitKind::kernel;
    v.wait->what = works[i] == GpuWork::other ? base::later("kernel of its own")
                                              : base::later("kernel that does not start");
    v.state = RankState::stuck;
  }
}

}  // namespace xpurun::report
