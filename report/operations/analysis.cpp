#include "report/operations/analysis.h"

#include "common/base/hash.h"
#include "common/base/strings.h"
#include "common/model/speed/kernel_name.h"
#include "common/model/timing/op_names.h"
#include "common/model/timing/peaks.h"
#include "report/events/groups.h"
#include "report/speed/duration_rows.h"
#include "report/speed/primitives/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace xpurun::report {

namespace {

constexpr uint32_t kMostRows = 20'000;  // while ranks are added
constexpr size_t kMostOfATable = 1024;
constexpr size_t kShownRanks = 8;
constexpr double kOutlierSpreads = 4;  // robust standard deviations of the ranks of a role
constexpr double kLeastOutlier = 0.05;
constexpr size_t kLeastForSpread = 4;     // ranks; fewer have no distribution
constexpr int64_t kLeastCalls = 3;        // of a rank, for its median to count
constexpr size_t kLeastSpread = 10;       // calls of a rank, for its quantiles to count
constexpr size_t kMostDurations = 12;     // rows
constexpr double kLeastOfKernels = 0.01;  // of the time of the GPUs' work, for a kernel to be compared
constexpr size_t kMostLateRows = 24;
constexpr size_t kMostLateColumns = 32;

std::string sources_text(uint32_t sources) {
  std::string out;
  for (uint8_t i = 1; i < 8; ++i) {
    if ((sources >> i & 1u) != 0) {
      out += (out.empty() ? "" : ", ") + std::string(model::source_name(i));
    }
  }
  return out;
}

double mean_of(double sum, uint64_t count) {
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

double rate(double work, double seconds) {
  return work > 0 && seconds > 0 ? work / seconds * 1e-9 : -1;
}

model::RankSet ranks_of(const std::vector<model::SlowestRank>& ranks) {
  std::vector<base::Rank> numbers;
  for (const model::SlowestRank& one : ranks) {
    numbers.push_back(one.rank);
  }
  return model::RankSet::of(numbers);
}

// Shapes and collectives, whatever the communicator: ranks of one role are in different ones.
uint64_t hash_of_work(const OperationKey& key) {
  return base::hash_words(
      base::hash_text(key.name + '|' + key.type + '|' + key.transposes),
      {static_cast<uint64_t>(key.kind), static_cast<uint64_t>(key.size), static_cast<uint64_t>(key.bucket)});
}

// Of one rank: collectives tell roles apart where there are no matmuls, or only those of a start, such as
// those of an autotuner, which tries other shapes on each rank.
WorkCounts counts_of(const RankOperations& of) {
  constexpr double kLeastMatmuls = 0.1;  // for each collective
  WorkCounts matmuls;
  WorkCounts collectives;
  for (const OperationRow& row : of.rows) {
    const double calls = row.calls >= 0 ? row.calls : static_cast<double>(row.ns.size());
    if (row.key.kind == OperationKind::matmul) {
      matmuls[hash_of_work(row.key)] += calls;
    } else if (row.key.kind == OperationKind::collective) {
      collectives[hash_of_work(row.key)] += calls;
    }
  }
  const auto sum = [](const WorkCounts& counts) {
    return std::accumulate(counts.begin(), counts.end(), 0.0,
                           [](double all, const auto& one) { return all + one.second; });
  };
  return matmuls.empty() || sum(matmuls) < kLeastMatmuls * sum(collectives) ? collectives : matmuls;
}

// The ranks that need longest, compared with the median of the ranks of their role.
std::vector<model::SlowestRank> slowest(std::vector<model::SlowestRank> ranks, const RankRoles& roles) {
  std::erase_if(ranks, [](const auto& r) { return r.count < kLeastCalls; });
  std::vector<model::SlowestRank> out;
  while (!ranks.empty()) {
    const base::Rank first = ranks.front().rank;
    const auto others = std::stable_partition(
        ranks.begin(), ranks.end(), [&](const auto& one) { return roles.may_compare(first, one.rank); });
    std::vector<model::SlowestRank> alike(ranks.begin(), others);
    ranks.erase(ranks.begin(), others);
    std::vector<double> medians;
    for (const model::SlowestRank& one : alike) {
      medians.push_back(one.median_s);
    }
    const double usual = quantile(medians, 0.5);
    if (alike.size() < 2 || !(usual > 0)) {
      continue;
    }
    const double spread = alike.size() < kLeastForSpread ? 0 : robust_spread(medians, usual) / usual;
    for (model::SlowestRank& one : alike) {
      one.excess = one.median_s / usual - 1;
      one.outlier = one.excess > std::max(kLeastOutlier, kOutlierSpreads * spread);
      out.push_back(one);
    }
  }
  ranks = std::move(out);
  std::stable_sort(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.outlier, a.excess, a.median_s) > std::tuple(b.outlier, b.excess, b.median_s);
  });
  ranks.resize(std::min(ranks.size(), kShownRanks));
  return ranks;
}

double time_of(const model::CallTimes& t) {
  return t.calls > 0 && t.count > 0 ? t.total_s / static_cast<double>(t.count) * t.calls : t.total_s;
}

template <typename R>
void put_in_order(std::vector<R>& table, int64_t& left_out) {
  std::stable_sort(table.begin(), table.end(),
                   [](const R& a, const R& b) { return time_of(a.times) > time_of(b.times); });
  if (table.size() > kMostOfATable) {
    left_out += static_cast<int64_t>(table.size() - kMostOfATable);
    table.resize(kMostOfATable);
  }
}

std::string size_words(int bucket) {
  return base::human_size(uint64_t{1} << bucket);
}

// Rows of one name.
struct Sum {
  OperationSamples out;
  BlockMeans blocks;
  std::map<base::Rank, std::pair<double, int>> ranks;  // sum of medians, number
  double total_s = 0;
};

std::vector<double> seconds(std::vector<double> ns) {
  for (double& one : ns) {
    one *= 1e-9;
  }
  return ns;
}

// Of many ranks the slowest.
std::vector<model::SlowestRank> unusual_ranks(std::vector<model::SlowestRank> ranks) {
  constexpr size_t kMostRanks = 128;
  if (ranks.size() > kMostRanks) {
    std::stable_sort(ranks.begin(), ranks.end(),
                     [](const auto& a, const auto& b) { return a.median_s > b.median_s; });
    ranks.resize(kMostRanks);
  }
  return ranks;
}

}  // namespace

void OperationAnalysis::merge(const OperationRow& from, const RankOperations& of, base::Rank rank, Row& to) {
  std::vector<double> durations;
  durations.reserve(from.ns.size());
  for (const float ns : from.ns) {
    durations.push_back(static_cast<double>(ns));
    to.durations.add(static_cast<double>(ns));
  }
  double total_s = 0;
  for (const double ns : durations) {
    total_s += ns * 1e-9;
  }
  to.least_work = to.ranks.empty() ? from.least_work : std::min(to.least_work, from.least_work);
  to.most_work = std::max(to.most_work, from.most_work);
  to.work += from.work;
  to.calls += from.calls;
  to.calls_known = to.calls_known && from.calls >= 0;
  to.sources |= from.sources;
  to.share += of.span_window_s > 0 ? (total_s + from.untimed_s) / of.span_window_s : 0;
  if (from.key.kind == OperationKind::matmul) {
    const double peak = model::Peaks().of(of.gpu, from.wire_key.dtype[0], from.wire_key.compute);
    to.peak = to.ranks.empty() || to.peak == peak ? peak : 0;
  }
  to.blocks.add(block_medians(from.ns));
  to.ranks.push_back({.rank = rank,
                      .count = static_cast<int64_t>(durations.size()),
                      .median_s = quantile(durations, 0.5) * 1e-9});
  if (from.key.kind == OperationKind::collective && durations.size() >= kLeastSpread) {
    for (double& one : durations) {
      one *= 1e-9;
    }
    to.spread.push_back(rank_durations(rank, durations));
  }
}

void OperationAnalysis::add(const RankRecord& rank) {
  RankOperations of = operations_of(rank);
  roles_.add(rank.rank, counts_of(of));
  std::vector<uint32_t> numbers;  // of the rows, in the tables
  for (const OperationRow& row : of.rows) {
    auto it = index_.find(row.key);
    if (it == index_.end() && rows_.size() < kMostRows) {
      it = index_.emplace(row.key, static_cast<uint32_t>(rows_.size())).first;
      rows_.emplace_back();
    }
    numbers.push_back(it == index_.end() ? kMostRows : it->second);
    if (it == index_.end()) {
      ++out_.left_out;
    } else {
      merge(row, of, rank.rank, rows_[it->second]);
    }
  }
  for (RankArrival& arrival : of.arrivals) {
    if (numbers[arrival.row] < kMostRows) {
      arrival.row = numbers[arrival.row];
      arrival.rank = static_cast<uint32_t>(places_.size());
      meetings_.add(arrival);
    }
  }
  places_.push_back({rank.rank, rank.host});
  links_.add(rank);
  unsafe_sends_.add(rank);
  for (const model::EventCommunicator& c : of.communicators) {
    Member& member = communicators_[{c.identity, c.nranks}];
    member.name = member.name.empty() ? base::sanitize(c.name) : member.name;
    if (member.ranks.empty() || member.ranks.back() != rank.rank) {
      member.ranks.push_back(rank.rank);
    }
  }
  if (of.breakdown.window_s > 0) {
    out_.ranks.push_back(of.breakdown);
  }
  out_.lost += of.lost;
}

model::CallTimes OperationAnalysis::times_of(const Row& row) const {
  return {.count = static_cast<int64_t>(row.durations.count()),
          .calls = row.calls_known ? row.calls : -1,
          .median_s = row.durations.quantile_s(0.5),
          .p99_s = row.durations.quantile_s(0.99),
          .total_s = row.durations.total_s(),
          .sources = sources_text(row.sources)};
}

void OperationAnalysis::put_communicator(const OperationKey& key, const Row& row,
                                         model::CollectiveRow& to) const {
  to.size = key.size;
  to.members = ranks_of(row.ranks).text();
  to.link = links_.of(key.identity, key.size);
  const auto found = communicators_.find({key.identity, key.size});
  if (found != communicators_.end()) {
    to.communicator = found->second.name;
    const model::RankSet all = model::RankSet::of(found->second.ranks);
    to.members = all.text();
    if (static_cast<size_t>(key.size) == all.size() && all.size() > 1 && all.size() == places_.size()) {
      to.group = "all ranks";
    }
  }
  if (const auto family = families_.find({key.identity, key.size}); family != families_.end()) {
    to.group = family->second;
  }
}

void OperationAnalysis::put(const OperationKey& key, const Row& row, model::Lateness lateness,
                            model::OperationTables& out) {
  const model::CallTimes times = times_of(row);
  const double mean_work = mean_of(row.work, row.durations.count());
  switch (key.kind) {
    case OperationKind::matmul: {
      model::MatmulRow to{.shape = key.name,
                          .types = key.type,
                          .transposes = key.transposes,
                          .flop = mean_work,
                          .times = times,
                          .slowest = slowest(row.ranks, roles_)};
      to.tflops = mean_work > 0 && times.median_s > 0 ? mean_work / times.median_s * 1e-12 : -1;
      to.peak_share = to.tflops > 0 && row.peak > 0 ? to.tflops * 1e12 / row.peak : -1;
      out.matmuls.push_back(std::move(to));
      break;
    }
    case OperationKind::collective: {
      model::CollectiveRow to{.operation = key.name,
                              .type = key.type,
                              .least_bytes = row.least_work,
                              .most_bytes = row.most_work,
                              .mean_bytes = mean_work,
                              .times = times,
                              .lateness = std::move(lateness)};
      put_communicator(key, row, to);
      const double factor = model::bus_factor(key.name, key.size);
      to.algorithm_gb_s = rate(mean_work, times.median_s);
      to.bus_gb_s = rate(mean_work * factor, times.median_s);
      to.transfer_algorithm_gb_s = rate(mean_work, to.lateness.transfer_s);
      to.transfer_bus_gb_s = rate(mean_work * factor, to.lateness.transfer_s);
      for (const model::SlowestRank& rank : unusual_ranks(row.ranks)) {
        to.ranks.push_back({.rank = rank.rank,
                            .count = rank.count,
                            .median_s = rank.median_s,
                            .algorithm_gb_s = rate(mean_work, rank.median_s),
                            .bus_gb_s = rate(mean_work * factor, rank.median_s)});
      }
      out.collectives.push_back(std::move(to));
      break;
    }
    case OperationKind::memory:
      out.memory.push_back({.operation = key.name,
                            .least_bytes = row.least_work,
                            .most_bytes = row.most_work,
                            .mean_bytes = mean_work,
                            .times = times,
                            .gb_s = rate(mean_work, times.median_s),
                            .slowest = slowest(row.ranks, roles_)});
      break;
    case OperationKind::program_call: {
      const double bus = mean_work * model::mpi_bus_factor(key.name, lateness.mean_ranks);
      const double bus_gb_s = rate(bus, lateness.transfer_s);
      out.program_calls.push_back({.function = key.name,
                                   .place = key.type,
                                   .ranks = ranks_of(row.ranks).text(),
                                   .mean_bytes = mean_work,
                                   .times = times,
                                   .share = row.share / static_cast<double>(row.ranks.size()),
                                   .bus_gb_s = bus_gb_s,
                                   .lateness = std::move(lateness)});
      break;
    }
    case OperationKind::kernel:
    case OperationKind::launch:
      break;
  }
}

void OperationAnalysis::find_families() {
  GroupFinder finder;
  std::map<base::Rank, Activity> of_rank;
  for (const auto& [key, member] : communicators_) {
    for (const base::Rank rank : member.ranks) {
      of_rank[rank].communicators.push_back({.identity = key.first, .size = key.second});
    }
  }
  for (const RankPlace& place : places_) {
    Activity& activity = of_rank[place.rank];
    activity.rank = place.rank;
    finder.add(activity);
  }
  for (const GroupFinder::Family& family : finder.families()) {
    for (const auto& [key, member] : communicators_) {
      const model::RankSet all = model::RankSet::of(member.ranks);
      if (std::find(family.groups.begin(), family.groups.end(), all) != family.groups.end()) {
        families_[key] = family.name;
      }
    }
  }
}

std::string OperationAnalysis::collective_name(const OperationKey& key, double bytes) const {
  const auto member = communicators_.find({key.identity, key.size});
  const std::string communicator = member == communicators_.end() ? "" : member->second.name;
  return fmt::format("{} of {} {} on {}{} ranks", key.name, base::human_size(static_cast<uint64_t>(bytes)),
                     key.type, communicator.empty() ? "" : communicator + " of ", key.size);
}

// Of the collectives at which the ranks wait longest.
void OperationAnalysis::put_lateness(const std::map<uint32_t, model::Lateness>& lateness) {
  std::vector<std::pair<double, const OperationKey*>> all;
  for (const auto& [key, number] : index_) {
    if (const auto found = lateness.find(number); found != lateness.end() && found->second.wait_s > 0) {
      all.emplace_back(found->second.wait_s, &key);
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  all.resize(std::min(all.size(), kMostLateRows));
  std::map<base::Rank, double> latest;
  std::vector<std::map<base::Rank, double>> rows;
  for (const auto& [wait, key] : all) {
    rows.push_back(meetings_.mean_late(index_.at(*key)));
    for (const auto& [rank, late_s] : rows.back()) {
      latest[rank] = std::max(latest[rank], late_s);
    }
  }
  std::vector<std::pair<double, base::Rank>> order;
  for (const auto& [rank, late_s] : latest) {
    order.emplace_back(-late_s, rank);
  }
  std::sort(order.begin(), order.end());
  order.resize(std::min(order.size(), kMostLateColumns));
  model::LatenessMatrix& out = out_.lateness;
  for (const auto& [late, rank] : order) {
    out.ranks.push_back(rank);
  }
  std::sort(out.ranks.begin(), out.ranks.end());
  for (size_t i = 0; i < all.size(); ++i) {
    const OperationKey& key = *all[i].second;
    const Row& row = rows_[index_.at(key)];
    model::LatenessRow& to = out.rows.emplace_back();
    to.name = key.kind == OperationKind::collective
                  ? collective_name(key, mean_of(row.work, row.durations.count()))
                  : sample_name(key);
    for (const base::Rank rank : out.ranks) {
      const auto late = rows[i].find(rank);
      to.late_s.push_back(late == rows[i].end() ? -1 : late->second);
    }
  }
}

// Of the collectives that take the most time.
void OperationAnalysis::put_durations() {
  std::vector<std::pair<double, const OperationKey*>> all;
  for (const auto& [key, number] : index_) {
    if (!rows_[number].spread.empty()) {
      all.emplace_back(time_of(times_of(rows_[number])), &key);
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  all.resize(std::min(all.size(), kMostDurations));
  for (const auto& [time, key] : all) {
    Row& row = rows_[index_.at(*key)];
    keep_unusual(row.spread);
    const double bytes = mean_of(row.work, row.durations.count());
    std::string name = collective_name(*key, bytes);
    const bool is_known = std::any_of(out_.durations.begin(), out_.durations.end(),
                                      [&name](const auto& one) { return one.name.starts_with(name); });
    out_.durations.push_back(
        {.name = is_known ? fmt::format("{}, communicator {:x}", name, key->identity) : name,
         .bytes = bytes,
         .bus_factor = model::bus_factor(key->name, key->size),
         .ranks = std::move(row.spread)});
  }
}

model::OperationTables OperationAnalysis::finish() {
  find_families();
  put_durations();
  std::map<uint32_t, model::Lateness> lateness = meetings_.lateness(places_);
  put_lateness(lateness);
  for (const auto& [key, number] : index_) {
    put(key, rows_[number], std::move(lateness[number]), out_);
  }
  put_in_order(out_.matmuls, out_.left_out);
  put_in_order(out_.collectives, out_.left_out);
  put_in_order(out_.memory, out_.left_out);
  put_in_order(out_.program_calls, out_.left_out);
  out_.unsafe_sends = unsafe_sends_.finish();
  return std::move(out_);
}

std::string OperationAnalysis::sample_name(const OperationKey& key) const {
  switch (key.kind) {
    case OperationKind::matmul:
      return fmt::format("{} {} {}", key.name, key.type, key.transposes);
    case OperationKind::collective: {
      const auto found = communicators_.find({key.identity, key.size});
      const std::string name = found == communicators_.end() ? "" : found->second.name;
      return fmt::format("{} of {} {} on {}{} ranks", key.name, size_words(key.bucket), key.type,
                         name.empty() ? "" : name + " of ", key.size);
    }
    case OperationKind::memory:
      return fmt::format("{} of {}", key.name, size_words(key.bucket));
    case OperationKind::program_call:
      return key.type.empty() ? key.name : fmt::format("{} at {}", key.name, key.type);
    case OperationKind::kernel:
      return model::kernel_name(key.name);
    case OperationKind::launch:
      break;
  }
  return "";
}

std::vector<OperationSamples> OperationAnalysis::samples() const {
  std::map<std::pair<OperationKind, std::string>, Sum> sums;
  std::map<std::pair<OperationKind, std::string>, Sum> transfers;
  std::map<std::pair<OperationKind, std::string>, Sum> skews;
  double all_s = 0;
  for (const auto& [key, number] : index_) {
    const bool gpu_work = key.kind != OperationKind::program_call && key.kind != OperationKind::launch;
    all_s += gpu_work ? rows_[number].durations.total_s() : 0;
  }
  for (const auto& [key, number] : index_) {
    const Row& row = rows_[number];
    if (key.kind == OperationKind::kernel && row.durations.total_s() < kLeastOfKernels * all_s) {
      continue;
    }
    const std::pair id{key.kind, sample_name(key)};
    Sum& to = sums[id];
    to.out.kind = key.kind;
    to.out.name = id.second;
    to.out.count += static_cast<int64_t>(row.durations.count());
    if (key.kind == OperationKind::matmul) {
      to.out.work = mean_of(row.work, row.durations.count());
    }
    to.blocks.add(row.blocks);
    const double count = static_cast<double>(row.durations.count());
    to.total_s += row.durations.total_s() * (row.calls_known && count > 0 ? row.calls / count : 1);
    for (const model::SlowestRank& rank : row.ranks) {
      auto& [sum, rows] = to.ranks[rank.rank];
      sum += rank.median_s;
      ++rows;
    }
    const auto put = [&, kind = key.kind](std::map<std::pair<OperationKind, std::string>, Sum>& all,
                                          SampleMeasure measure, const std::vector<double>& blocks) {
      if (!blocks.empty()) {
        Sum& sum = all[id];
        sum.out.kind = kind;
        sum.out.measure = measure;
        sum.out.name = id.second;
        sum.out.count += static_cast<int64_t>(row.durations.count());
        sum.blocks.add(blocks);
      }
    };
    put(transfers, SampleMeasure::transfer, meetings_.transfer_blocks(number));
    put(skews, SampleMeasure::skew, meetings_.skew_blocks(number));
    for (const auto& [rank, mean_s] : meetings_.skew_of_ranks(number)) {
      auto& [sum, rows] = skews[id].ranks[rank];
      sum += mean_s;
      ++rows;
    }
  }
  std::vector<OperationSamples> out;
  for (auto* all : {&sums, &transfers, &skews}) {
    for (auto& [id, sum] : *all) {
      sum.out.blocks = seconds(sum.blocks.means());
      for (const auto& [rank, value] : sum.ranks) {
        sum.out.ranks.emplace_back(rank, value.first / value.second);
      }
      sum.out.of_a_rank_s = sum.ranks.empty() ? 0 : sum.total_s / static_cast<double>(sum.ranks.size());
      out.push_back(std::move(sum.out));
    }
  }
  return out;
}

}  // namespace xpurun::report
