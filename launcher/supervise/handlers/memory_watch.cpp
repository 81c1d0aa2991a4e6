#include "launcher/supervise/handlers/memory_watch.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/memory/memory_words.h"
#include "report/flamegraph/palette.h"

#include <algorithm>
#include <limits>

namespace xpurun::launcher {

namespace {

constexpr double kLookAtMemoryS = 10;
constexpr double kSoonS = 3600;    // a limit that is further away may never be reached
constexpr double kFarthest = 30;   // times as long as the growth was seen
constexpr double kExamineS = 600;  // at most so often
constexpr double kLivesS = 5;      // a rank without a sample for this long has ended

bool is_soon(double left_s, const MemorySeries::Growth& growth) {
  const double seen_s = base::ns_to_s(growth.to.at_ns - growth.from.at_ns);
  return left_s >= 0 && left_s <= std::min(kSoonS, kFarthest * seen_s);
}

}  // namespace

void MemoryWatch::add(base::Pid pid, const model::LoadSample& load) {
  TrackedProcess* process = parts_.table.find(pid);
  if (process == nullptr || (load.private_bytes < 0 && !load.gpu.known())) {
    return;
  }
  Watched& watched = watched_[pid];
  if (watched.start_ticks != process->record.start_ticks) {
    watched = {};
    watched.start_ticks = process->record.start_ticks;
  }
  watched.latest = load.at_ns;
  const uint64_t steps = hooks_.steps(process->record.rank);
  if (load.private_bytes >= 0) {
    watched.host.series.add({.at_ns = load.at_ns,
                             .own_bytes = load.private_bytes,
                             .helpers_bytes = std::max<int64_t>(load.helpers_bytes, 0),
                             .steps = steps});
  }
  if (load.gpu.known()) {
    watched.gpu_memory = load.gpu;
    watched.gpu.series.add({.at_ns = load.at_ns, .own_bytes = load.gpu.allocated_bytes, .steps = steps});
    model::GpuMemoryUse& kept = process->record.gpu_memory;
    kept.allocated_bytes = load.gpu.allocated_bytes;
    kept.peak_bytes = load.gpu.peak_bytes;
    kept.total_bytes = load.gpu.total_bytes;
  }
  if (base::ns_to_s(load.at_ns - looked_) >= kLookAtMemoryS) {
    looked_ = load.at_ns;
    look(load.at_ns);
  }
}

model::MemoryGrowth MemoryWatch::recorded(const MemorySeries::Growth& growth, base::MonoNs now) const {
  const double now_s = parts_.journal.elapsed_s();
  const auto at_s = [&](base::MonoNs at) { return std::max(now_s - base::ns_to_s(now - at), 0.0); };
  return {.from_bytes = growth.from.bytes(),
          .to_bytes = growth.to.bytes(),
          .helpers_bytes = std::max<int64_t>(growth.to.helpers_bytes - growth.from.helpers_bytes, 0),
          .since_s = at_s(growth.from.at_ns),
          .until_s = at_s(growth.to.at_ns),
          .since_step = growth.from.steps,
          .until_step = growth.to.steps};
}

void MemoryWatch::note(TrackedProcess& process, const Watched& watched, base::MonoNs now) {
  const auto kept = [&](const Kind& kind) {
    return kind.growth ? recorded(*kind.growth, now) : model::MemoryGrowth();
  };
  process.record.growth = kept(watched.host);
  process.record.gpu_memory.growth = kept(watched.gpu);
}

void MemoryWatch::look(base::MonoNs now) {
  std::vector<Grower> on_host;
  std::vector<Grower> on_gpu;
  for (auto& [pid, watched] : watched_) {
    TrackedProcess* process = parts_.table.find(pid);
    if (process == nullptr || base::ns_to_s(now - watched.latest) > kLivesS) {
      continue;
    }
    watched.host.growth = watched.host.series.growth();
    watched.gpu.growth = watched.gpu.series.growth();
    note(*process, watched, now);
    examine(pid, watched, now);
    if (watched.host.growth) {
      on_host.push_back({process, &watched});
    }
    if (watched.gpu.growth) {
      on_gpu.push_back({process, &watched});
    }
  }
  warn_of_host(on_host);
  warn_of_gpu(on_gpu);
}

void MemoryWatch::examine(base::Pid pid, Watched& watched, base::MonoNs now) {
  const bool grows = watched.host.growth || watched.gpu.growth;
  if (grows && (watched.examined == 0 || base::ns_to_s(now - watched.examined) >= kExamineS)) {
    watched.examined = now;
    hooks_.examine(pid, watched.host.growth.has_value());
  }
}

// The ranks of a host share its memory.
void MemoryWatch::warn_of_host(const std::vector<Grower>& growers) {
  const auto per_s = [](const Grower& g) { return g.watched->host.growth->bytes_per_s(); };
  const auto fastest = std::max_element(
      growers.begin(), growers.end(), [&](const Grower& a, const Grower& b) { return per_s(a) < per_s(b); });
  const auto room = fastest == growers.end() || said_host_ ? std::nullopt : hooks_.room();
  if (!room) {
    return;
  }
  double bytes_per_s = 0;
  model::RankSet ranks;
  for (const Grower& g : growers) {
    bytes_per_s += per_s(g);
    ranks.insert(g.process->record.rank);
  }
  const double left_s = seconds_to_limit(room->used_bytes, room->limit_bytes, bytes_per_s);
  if (!is_soon(left_s, *fastest->watched->host.growth)) {
    return;
  }
  said_host_ = true;
  say(
      [&] {
        const model::ProcessRecord& most = fastest->process->record;
        const std::string rate = report::growth_words(most.growth);
        const std::string limit = base::human_size(static_cast<uint64_t>(room->limit_bytes));
        const std::string left = base::human_duration(left_s);
        const std::string grows = ranks.size() == 1
                                      ? base::tr("the memory of rank {} grows by {}", most.rank, rate)
                                      : base::tr("the memory of {} grows, of rank {} by {}",
                                                 report::ranks_text(ranks), most.rank, rate);
        const std::string end =
            room->group.empty() ? base::tr("at this rate the {} of the host are used up in {}", limit, left)
                                : base::tr("at this rate the limit of {} of {} is reached in {}", limit,
                                           base::sanitize(room->group), left);
        return grows + "; " + end;
      },
      ranks);
}

// Each rank has its GPU. A step needs as much more than the growing part as the peak is above it.
void MemoryWatch::warn_of_gpu(const std::vector<Grower>& growers) {
  const auto left_s = [](const Grower& g) {
    const double seconds =
        seconds_to_limit(g.watched->gpu_memory.peak_bytes, g.watched->gpu_memory.total_bytes,
                         g.watched->gpu.growth->bytes_per_s());
    return seconds < 0 ? std::numeric_limits<double>::infinity() : seconds;
  };
  const auto first = std::min_element(growers.begin(), growers.end(), [&](const Grower& a, const Grower& b) {
    return left_s(a) < left_s(b);
  });
  if (said_gpu_ || first == growers.end() || !is_soon(left_s(*first), *first->watched->gpu.growth)) {
    return;
  }
  said_gpu_ = true;
  say(
      [&] {
        const model::ProcessRecord& record = first->process->record;
        const auto total = static_cast<uint64_t>(record.gpu_memory.total_bytes);
        return base::tr(
            "the GPU memory of rank {} grows by {}; at this rate the {} of the GPU are used up in at most {}",
            record.rank, report::growth_words(record.gpu_memory.growth), base::human_size(total),
            base::human_duration(left_s(*first)));
      },
      model::RankSet{first->process->record.rank});
}

void MemoryWatch::looked(const model::MemoryLook& look) {
  const base::Speaking speaking(parts_.options.language);
  for (const bool on_gpu : {true, false}) {
    const bool warned = on_gpu ? said_gpu_ : said_host_;
    for (const std::string& line : report::grower_words({look}, look.rank, on_gpu)) {
      if (warned && !said_holders_) {
        hooks_.say(line);
        said_holders_ = true;
      }
    }
  }
}

void MemoryWatch::say(const std::function<std::string()>& sentence, const model::RankSet& ranks) {
  hooks_.grows(sentence(), ranks);
  const base::Speaking speaking(parts_.options.language);
  hooks_.say(sentence());
}

}  // namespace xpurun::launcher
