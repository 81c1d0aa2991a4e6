#include "report/gpu_work/queue_length.h"

#include <algorithm>
#include <map>
#include <utility>

namespace xpurun::report {

std::vector<QueueChange> queue_changes(const RecordedWork& work, int64_t from, int64_t until) {
  std::vector<std::pair<int64_t, int>> steps;
  steps.reserve(2 * work.works.size());
  for (const GpuWork& w : work.works) {
    if (w.launch < w.begin && w.launch < until && w.begin > from) {
      steps.emplace_back(std::max(w.launch, from), 1);
      if (w.begin < until) {
        steps.emplace_back(w.begin, -1);
      }
    }
  }
  std::sort(steps.begin(), steps.end());
  std::vector<QueueChange> out{{from, 0}};
  int64_t length = 0;
  for (const auto& [at, change] : steps) {
    length += change;
    if (out.back().at == at) {
      out.back().length = length;
    } else {
      out.push_back({at, length});
    }
  }
  return out;
}

QueueTimes queue_times(const std::vector<QueueChange>& changes, int64_t until) {
  QueueTimes out;
  std::map<int64_t, int64_t> time_of;  // by length
  double sum = 0;
  int64_t all = 0;
  for (size_t i = 0; i < changes.size(); ++i) {
    const int64_t end = i + 1 < changes.size() ? changes[i + 1].at : until;
    const int64_t time = std::max<int64_t>(end - changes[i].at, 0);
    if (time == 0) {
      continue;
    }
    time_of[changes[i].length] += time;
    sum += static_cast<double>(changes[i].length) * static_cast<double>(time);
    all += time;
    out.most = std::max(out.most, changes[i].length);
  }
  if (all == 0) {
    return out;
  }
  out.mean = sum / static_cast<double>(all);
  const auto length_at = [&](double share) {
    const double wanted = share * static_cast<double>(all);
    double below = 0;
    for (const auto& [length, time] : time_of) {
      below += static_cast<double>(time);
      if (below >= wanted) {
        return length;
      }
    }
    return time_of.rbegin()->first;
  };
  out.median = length_at(0.5);
  out.p99 = length_at(0.99);
  return out;
}

std::vector<QueueChange> thinned(const std::vector<QueueChange>& changes, size_t most) {
  if (changes.size() <= most || most < 2) {
    return changes;
  }
  const int64_t span = changes.back().at - changes.front().at;
  const int64_t part = std::max<int64_t>(span / static_cast<int64_t>(most), 1);
  std::vector<QueueChange> out;
  for (const QueueChange& change : changes) {
    const int64_t at = changes.front().at + (change.at - changes.front().at) / part * part;
    if (!out.empty() && out.back().at == at) {
      out.back().length = std::max(out.back().length, change.length);
    } else {
      out.push_back({at, change.length});
    }
  }
  out.back() = {std::max(changes.back().at, out.back().at), changes.back().length};
  return out;
}

}  // namespace xpurun::report
