#include "launcher/supervise/handlers/memory_watch.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/rules/memory_words.h"
#include "report/flamegraph/palette.h"

#include <algorithm>

namespace xpurun::launcher {

namespace {

constexpr double kLookAtMemoryS = 10;
constexpr double kSoonS = 3600;   // a limit that is further away may never be reached
constexpr double kFarthest = 30;  // times as long as the growth was seen
constexpr double kLivesS = 5;     // a rank without a sample for this long has ended

}  // namespace

void MemoryWatch::add(base::Pid pid, const model::LoadSample& load) {
  TrackedProcess* process = parts_.table.find(pid);
  if (process == nullptr || load.private_bytes < 0) {
    return;
  }
  Watched& watched = watched_[pid];
  if (watched.start_ticks != process->record.start_ticks) {
    watched = {.start_ticks = process->record.start_ticks, .series = {}, .growth = {}};
  }
  watched.latest = load.at_ns;
  watched.series.add({.at_ns = load.at_ns,
                      .own_bytes = load.private_bytes,
                      .helpers_bytes = std::max<int64_t>(load.helpers_bytes, 0),
                      .steps = hooks_.steps(process->record.rank)});
  if (base::ns_to_s(load.at_ns - looked_) >= kLookAtMemoryS) {
    looked_ = load.at_ns;
    look(load.at_ns);
  }
}

void MemoryWatch::note(TrackedProcess& process, const Watched& watched, base::MonoNs now) {
  model::MemoryGrowth& kept = process.record.growth;
  kept = {};
  if (watched.growth) {
    const MemoryUse& from = watched.growth->from;
    const MemoryUse& to = watched.growth->to;
    const double now_s = parts_.journal.elapsed_s();
    const auto at_s = [&](base::MonoNs at) { return std::max(now_s - base::ns_to_s(now - at), 0.0); };
    kept = {.from_bytes = from.bytes(),
            .to_bytes = to.bytes(),
            .helpers_bytes = std::max<int64_t>(to.helpers_bytes - from.helpers_bytes, 0),
            .since_s = at_s(from.at_ns),
            .until_s = at_s(to.at_ns),
            .since_step = from.steps,
            .until_step = to.steps};
  }
}

void MemoryWatch::look(base::MonoNs now) {
  double bytes_per_s = 0;
  model::RankSet ranks;
  const TrackedProcess* most = nullptr;  // grows the fastest
  double most_per_s = 0;
  double most_s = 0;  // how long
  for (auto& [pid, watched] : watched_) {
    TrackedProcess* process = parts_.table.find(pid);
    if (process == nullptr || base::ns_to_s(now - watched.latest) > kLivesS) {
      continue;
    }
    watched.growth = watched.series.growth();
    note(*process, watched, now);
    if (watched.growth) {
      const double own = watched.growth->bytes_per_s();
      bytes_per_s += own;
      ranks.insert(process->record.rank);
      if (own > most_per_s) {
        most = process;
        most_per_s = own;
        most_s = base::ns_to_s(watched.growth->to.at_ns - watched.growth->from.at_ns);
      }
    }
  }
  const auto room = most == nullptr || said_ ? std::nullopt : hooks_.room();
  const double left_s = room ? seconds_to_limit(room->used_bytes, room->limit_bytes, bytes_per_s) : -1;
  if (left_s < 0 || left_s > std::min(kSoonS, kFarthest * most_s)) {
    return;
  }
  said_ = true;
  const auto sentence = [&] {
    const std::string rate = report::growth_words(most->record.growth);
    const std::string limit = base::human_size(static_cast<uint64_t>(room->limit_bytes));
    const std::string left = base::human_duration(left_s);
    const std::string grows = ranks.size() == 1
                                  ? base::tr("the memory of rank {} grows by {}", most->record.rank, rate)
                                  : base::tr("the memory of {} grows, of rank {} by {}",
                                             report::ranks_text(ranks), most->record.rank, rate);
    const std::string end = room->group.empty()
                                ? base::tr("at this rate the {} of the host are used up in {}", limit, left)
                                : base::tr("at this rate the limit of {} of {} is reached in {}", limit,
                                           base::sanitize(room->group), left);
    return grows + "; " + end;
  };
  hooks_.grows(sentence(), ranks);
  const base::Speaking speaking(parts_.options.language);
  hooks_.say(sentence());
}

}  // namespace xpurun::launcher
