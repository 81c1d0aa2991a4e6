#include "report/profile/captured_work.h"

#include "common/model/speed/kernel_name.h"
#include "report/speed/primitives/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

namespace xpurun::report {

using model::CapturedWork;
using model::WorkKind;

namespace {

constexpr double kLeastWorkShare = 0.01;
constexpr double kLeastWorkExcess = 0.02;
constexpr double kLeastRelative = 0.1;
constexpr double kWorkSpreads = 4;
constexpr size_t kMostWork = 200;
constexpr size_t kKinds = model::kNames<WorkKind>.size();

struct WorkInterval {
  int64_t begin;
  int64_t end;
  size_t key;
};

// Sorted, without overlap.
using Cover = std::vector<std::pair<int64_t, int64_t>>;

// The part of [begin, end) that is not covered.
int64_t uncovered(const Cover& cover, int64_t begin, int64_t end) {
  int64_t out = end - begin;
  auto at = std::upper_bound(cover.begin(), cover.end(), begin,
                             [](int64_t t, const auto& part) { return t < part.second; });
  for (; at != cover.end() && at->first < end; ++at) {
    out -= std::min(end, at->second) - std::max(begin, at->first);
  }
  return out;
}

// Intervals in order of their begins.
Cover joined(const Cover& cover, const std::vector<WorkInterval>& intervals) {
  Cover all = cover;
  for (const WorkInterval& i : intervals) {
    all.emplace_back(i.begin, i.end);
  }
  std::sort(all.begin(), all.end());
  Cover out;
  for (const auto& part : all) {
    if (!out.empty() && part.first <= out.back().second) {
      out.back().second = std::max(out.back().second, part.second);
    } else {
      out.push_back(part);
    }
  }
  return out;
}

WorkKind kind_of(const model::EventFile::Op& op) {
  switch (static_cast<wire::OpClass>(op.key.op_class)) {
    case wire::OpClass::memory:
      return WorkKind::memory;
    case wire::OpClass::host:
      return WorkKind::call;
    default:
      return model::is_nccl_kernel(op.function) ? WorkKind::collective : WorkKind::kernel;
  }
}

// Means of the whole rank, which know CUPTI's names already.
void set_uses(model::ResourceSampling& sampling, const std::vector<model::ResourceUse>& uses) {
  for (const model::ResourceUse& use : uses) {
    const auto known = std::find_if(sampling.resources.begin(), sampling.resources.end(),
                                    [&](const auto& r) { return r.resource == use.resource; });
    if (known != sampling.resources.end()) {
      known->mean = use.mean;
      known->spread = use.spread;
    }
  }
}

struct RankShare {
  base::Rank rank;
  double share;
};

bool stands_out(const std::vector<RankShare>& shares, size_t i, bool below, const RankRoles& roles) {
  std::vector<double> others;
  for (size_t k = 0; k < shares.size(); ++k) {
    if (k != i && roles.may_compare(shares[i].rank, shares[k].rank)) {
      others.push_back(shares[k].share);
    }
  }
  if (others.empty()) {
    return false;
  }
  const double usual = median(others);
  const double excess = below ? usual - shares[i].share : shares[i].share - usual;
  return excess >
         std::max({kLeastWorkExcess, kLeastRelative * usual, kWorkSpreads * robust_spread(others, usual)});
}

// The events of one rank that lie in the time of the capture, by kind of work and name.
class RankEvents {
 public:
  RankEvents(base::Rank rank, const CommunicatorLinks& links, int64_t from, int64_t until)
      : rank_(rank), links_(links), from_(from), until_(until) {}

  void read(const model::EventFile& file) {
    read_operations(file);
    for (const auto& entry : file.events) {
      add(entry.event);
    }
  }
  // Sets the time of each key on the critical path. Returns the time in which the GPU was busy.
  int64_t find_path();
  void add_resources(const model::ResourceFile& samples);
  std::map<WorkKey, WorkSum> sums() const;
  void add_durations_to(std::map<WorkKey, DurationSketch>& all) const;

 private:
  void read_operations(const model::EventFile& file);
  void add(const model::TimedEvent& event);
  // An index into `keys_` and `sums_`.
  size_t index_of(uint32_t op, int64_t begin, int64_t end);
  void find_path_of(const std::vector<WorkInterval>& intervals, const Cover& cover);

  base::Rank rank_;
  const CommunicatorLinks& links_;
  int64_t from_;
  int64_t until_;
  std::map<uint32_t, WorkKey> key_of_;  // by operation, without the link class
  std::map<std::pair<uint32_t, model::LinkClass>, size_t> index_of_operation_;
  std::map<WorkKey, size_t> index_of_key_;
  std::vector<WorkKey> keys_;
  std::vector<WorkSum> sums_;              // of each key
  std::vector<DurationSketch> durations_;  // the same
  std::array<std::vector<WorkInterval>, kKinds> by_kind_;
};

void RankEvents::read_operations(const model::EventFile& file) {
  for (const auto& [index, op] : file.ops) {
    key_of_[index] = {.kind = kind_of(op), .name = model::kernel_name(op.function)};
  }
}

size_t RankEvents::index_of(uint32_t op, int64_t begin, int64_t end) {
  const WorkKey& key = key_of_.at(op);
  const auto link =
      key.kind == WorkKind::collective ? links_.of_kernel(rank_, begin, end) : model::LinkClass::unknown;
  // A name is looked up once for each operation and link class, not for each event.
  const auto [number, is_new] = index_of_operation_.emplace(std::pair(op, link), 0);
  if (is_new) {
    const auto [at, added] = index_of_key_.emplace(WorkKey{key.kind, key.name, link}, keys_.size());
    number->second = at->second;
    if (added) {
      keys_.push_back(at->first);
      sums_.emplace_back();
      durations_.emplace_back();
    }
  }
  return number->second;
}

void RankEvents::add(const model::TimedEvent& event) {
  const auto begin = static_cast<int64_t>(event.begin_ns);
  if (begin >= until_ || begin < from_ - base::s_to_ns(3600)) {
    return;
  }
  const auto length = static_cast<int64_t>(std::min<uint64_t>(event.duration_ns, uint64_t{1} << 60));
  if (begin + length < from_) {
    return;
  }
  const WorkInterval i{std::max(begin, from_), std::min(begin + length, until_),
                       index_of(event.op, begin, begin + length)};
  const double seconds = base::ns_to_s(length);
  WorkSum& sum = sums_[i.key];
  ++sum.count;
  sum.total_s += base::ns_to_s(i.end - i.begin);
  sum.duration_s += seconds;
  sum.squares += seconds * seconds;
  durations_[i.key].add(static_cast<double>(length));
  by_kind_[static_cast<size_t>(keys_[i.key].kind)].push_back(i);
}

// Which of several works at the same time is on the critical path: a kernel before a collective, a collective
// before a memory operation, and a call on the host last. Of two of a kind, the first to begin.
int64_t RankEvents::find_path() {
  int64_t busy = 0;
  Cover cover;
  for (size_t kind = 0; kind < kKinds; ++kind) {
    auto& intervals = by_kind_[kind];
    std::sort(intervals.begin(), intervals.end(),
              [](const WorkInterval& a, const WorkInterval& b) { return a.begin < b.begin; });
    if (kind == static_cast<size_t>(WorkKind::call)) {
      for (const auto& [begin, end] : cover) {
        busy += end - begin;
      }
    }
    find_path_of(intervals, cover);
    cover = joined(cover, intervals);
  }
  return busy;
}

void RankEvents::find_path_of(const std::vector<WorkInterval>& intervals, const Cover& cover) {
  int64_t reached = from_;
  for (const WorkInterval& i : intervals) {
    const int64_t begin = std::max(i.begin, reached);
    if (i.end > begin) {
      sums_[i.key].path_s += base::ns_to_s(uncovered(cover, begin, i.end));
      reached = i.end;
    }
  }
}

void RankEvents::add_resources(const model::ResourceFile& samples) {
  std::vector<TimeParts> parts(keys_.size());
  for (const auto& intervals : by_kind_) {
    for (const WorkInterval& i : intervals) {
      parts[i.key].emplace_back(i.begin, i.end);
    }
  }
  for (size_t k = 0; k < keys_.size(); ++k) {
    if (keys_[k].kind != WorkKind::call) {
      sums_[k].resources = sums_while(samples, std::move(parts[k]));
    }
  }
}

std::map<WorkKey, WorkSum> RankEvents::sums() const {
  std::map<WorkKey, WorkSum> out;
  for (size_t k = 0; k < keys_.size(); ++k) {
    out[keys_[k]] = sums_[k];
  }
  return out;
}

void RankEvents::add_durations_to(std::map<WorkKey, DurationSketch>& all) const {
  for (size_t k = 0; k < keys_.size(); ++k) {
    all[keys_[k]].add(durations_[k]);
  }
}

}  // namespace

void CapturedWorkTable::add(model::RankActivity& activity, const model::EventFile& file,
                            const model::ResourceFile* samples) {
  const int64_t from = activity.begin_mono_ns;
  const int64_t until = from + base::s_to_ns(activity.seconds);
  if (activity.seconds <= 0) {
    return;
  }
  RankEvents events(activity.rank, links_, from, until);
  events.read(file);
  activity.busy_share = base::ns_to_s(events.find_path()) / activity.seconds;
  if (samples != nullptr) {
    set_uses(activity.sampling, sums_between(*samples, from, until).uses());
    events.add_resources(*samples);
  }
  events.add_durations_to(durations_);
  ranks_.push_back({.rank = activity.rank, .seconds = activity.seconds, .sums = events.sums()});
}

CapturedWork CapturedWorkTable::summary(const WorkKey& key) const {
  CapturedWork out{.name = key.name, .kind = key.kind, .link = key.link};
  std::vector<RankShare> shares;
  std::vector<double> paths;
  double total = 0;
  double durations = 0;
  double squares = 0;
  RunningSums resources;
  for (const Rank& rank : ranks_) {
    const auto found = rank.sums.find(key);
    const WorkSum own = found == rank.sums.end() ? WorkSum{} : found->second;
    out.count += own.count;
    total += own.total_s;
    durations += own.duration_s;
    squares += own.squares;
    resources.add(own.resources);
    shares.push_back({rank.rank, own.total_s / rank.seconds});
    paths.push_back(own.path_s / rank.seconds);
  }
  size_t count = 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    if (stands_out(shares, i, key.kind == WorkKind::collective, roles_)) {
      out.ranks.insert(shares[i].rank);
      ++count;
    }
  }
  if (count * 2 >= shares.size() && !(count == 1 && shares.size() == 2)) {
    out.ranks = {};
    count = 0;
  }
  const auto all = static_cast<double>(shares.size());
  const auto slow = static_cast<double>(count);
  for (size_t i = 0; i < shares.size(); ++i) {
    const bool is_slow = out.ranks.contains(shares[i].rank);
    (is_slow ? out.ranks_share : out.share) += shares[i].share / (is_slow ? slow : all - slow);
    out.path += paths[i] / all;
  }
  for (const RankShare& one : shares) {
    const bool nearer = out.normal_rank == base::kNoRank ||
                        std::abs(one.share - out.share) < std::abs(out.normal_share - out.share);
    if (count > 0 && !out.ranks.contains(one.rank) && nearer) {
      out.normal_rank = one.rank;
      out.normal_share = one.share;
    }
  }
  const auto calls = static_cast<double>(out.count);
  out.total_s = total / all;
  out.mean_s = calls > 0 ? durations / calls : 0;
  out.median_s = durations_.at(key).quantile_s(0.5);
  out.spread_s = calls > 1 ? std::sqrt(std::max(0.0, (squares - durations * out.mean_s) / (calls - 1))) : 0;
  out.resources = resources.uses();
  out.resource = fitting_resource(out.kind, out.name, out.resources);
  out.filled = resources.filled();
  return out;
}

std::vector<CapturedWork> CapturedWorkTable::work() const {
  std::set<WorkKey> keys;
  for (const Rank& rank : ranks_) {
    for (const auto& [key, sum] : rank.sums) {
      if (sum.total_s >= kLeastWorkShare * rank.seconds) {
        keys.insert(key);
      }
    }
  }
  std::vector<CapturedWork> out;
  for (const WorkKey& key : keys) {
    out.push_back(summary(key));
  }
  std::stable_sort(out.begin(), out.end(), [](const CapturedWork& a, const CapturedWork& b) {
    return std::pair(a.path, a.share) > std::pair(b.path, b.share);
  });
  if (out.size() > kMostWork) {
    out.resize(kMostWork);
  }
  return out;
}

}  // namespace xpurun::report
