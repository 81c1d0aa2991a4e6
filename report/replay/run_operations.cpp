#include "report/replay/run_operations.h"

#include "common/base/strings.h"
#include "report/events/op_facts.h"
#include "report/operations/call_numbers.h"
#include "report/speed/primitives/statistics.h"

#include <algorithm>
#include <limits>

namespace xpurun::report {

namespace {

using model::EventFile;
using wire::OpClass;

// Memory is bounded: collectives beyond this number are not looked at.
constexpr size_t kMostMeetings = size_t{4} << 20;
constexpr uint64_t kLongestCallNs = 3'600'000'000'000;

bool is_measured(const model::TimedEvent& e) {
  return is_gpu_time(e) && is_possible(e) && e.duration_ns > 0 && e.duration_ns < kLongestCallNs;
}

// A shorter overlap, as a share of the matmul, does not change its duration visibly.
constexpr double kLeastOverlap = 0.05;

Interval interval_of(const model::TimedEvent& e) {
  const auto begin = static_cast<int64_t>(e.begin_ns);
  return {begin, begin + static_cast<int64_t>(e.duration_ns)};
}

// When a timed collective, send or receive of the rank was running.
std::vector<Interval> timed_collectives(const RankRecord& rank) {
  std::vector<Interval> out;
  for (const EventFile& file : rank.events) {
    for (const EventFile::Entry& entry : file.events) {
      const auto op = file.ops.find(entry.event.op);
      if (op != file.ops.end() && is_measured(entry.event) &&
          static_cast<OpClass>(op->second.key.op_class) == OpClass::collective) {
        out.push_back(interval_of(entry.event));
      }
    }
  }
  return united(std::move(out));
}

bool is_beside(const model::TimedEvent& e, const std::vector<Interval>& collectives) {
  const Interval matmul = interval_of(e);
  auto at = std::partition_point(collectives.begin(), collectives.end(),
                                 [&](const Interval& c) { return c.end <= matmul.begin; });
  int64_t shared = 0;
  for (; at != collectives.end() && at->begin < matmul.end; ++at) {
    shared += std::min(at->end, matmul.end) - std::max(at->begin, matmul.begin);
  }
  return static_cast<double>(shared) >= kLeastOverlap * static_cast<double>(matmul.end - matmul.begin);
}

// The part that is equal for alike calls; the rest is zero.
model::EventKey matmul_key(const model::EventKey& from) {
  model::EventKey out{};
  out.api = from.api;
  out.op_class = from.op_class;
  out.flags = from.flags;
  std::copy(std::begin(from.dtype), std::end(from.dtype), out.dtype);
  out.compute = from.compute;
  out.trans = from.trans;
  out.epilogue = from.epilogue;
  out.batch = from.batch;
  out.m = from.m;
  out.n = from.n;
  out.k = from.k;
  return out;
}

model::EventKey collective_key(const model::EventKey& from, int size) {
  model::EventKey out{};
  out.api = from.api;
  out.op_class = from.op_class;
  out.dtype[0] = from.dtype[0];
  out.compute = from.compute;
  out.k = from.k;
  out.batch = static_cast<uint32_t>(size);
  return out;
}

template <typename T>
double median_of(const std::vector<T>& values) {
  return median(std::vector<double>(values.begin(), values.end()));
}

}  // namespace

size_t RunOperationCollector::matmul_of(const EventFile::Op& op) {
  const model::EventKey key = matmul_key(op.key);
  const auto [it, added] = matmul_index_.emplace(key, matmuls_.size());
  if (added) {
    Matmul& to = matmuls_.emplace_back();
    to.matmul.key = key;
    to.matmul.function = base::sanitize(op.function);
    to.matmul.flop = op.work;
  }
  return it->second;
}

size_t RunOperationCollector::collective_of(const EventFile::Op& op, int size) {
  const model::EventKey key = collective_key(op.key, size);
  const auto [it, added] = collective_index_.emplace(key, out_.collectives.size());
  if (added) {
    out_.collectives.push_back(
        {.key = key, .function = base::sanitize(op.function), .bytes = op.work, .size = size});
  }
  return it->second;
}

double RunOperationCollector::add(const EventFile& file, const std::vector<Interval>& collectives) {
  uint64_t first_ns = std::numeric_limits<uint64_t>::max();
  uint64_t last_ns = 0;
  CallNumbers numbers;
  struct OfEntry {
    size_t matmul = 0;
    double ns = 0;
  };
  std::map<uint32_t, OfEntry> entries;
  for (const EventFile::Entry& entry : file.events) {
    const model::TimedEvent& e = entry.event;
    const auto found = file.ops.find(e.op);
    if (found == file.ops.end() || !is_measured(e)) {
      continue;
    }
    const EventFile::Op& op = found->second;
    const bool other = (op.key.flags & wire::kOpOther) != 0;
    const auto op_class = static_cast<OpClass>(op.key.op_class);
    if (op_class == OpClass::matmul && other) {
      ++out_.other_calls;
    } else if (op_class == OpClass::matmul) {
      const auto [it, added] = entries.emplace(e.op, OfEntry{});
      if (added) {
        it->second.matmul = matmul_of(op);
      }
      Matmul& matmul = matmuls_[it->second.matmul];
      (is_beside(e, collectives) ? matmul.overlapped_ns : matmul.ns)
          .push_back(static_cast<float>(e.duration_ns));
      it->second.ns += static_cast<double>(e.duration_ns);
      numbers.add({0, e.op}, e.sequence);
      first_ns = std::min(first_ns, e.begin_ns);
      last_ns = std::max(last_ns, e.begin_ns);
    } else if (const OpFacts facts = facts_of(file, op, entry); facts.meets && !other) {
      const uint64_t id = meeting_of(facts.identity, facts.size, e.sequence);
      if (meetings_.size() >= kMostMeetings && !meetings_.contains(id)) {
        continue;
      }
      const auto [it, added] =
          meetings_.emplace(id, Meeting{static_cast<uint32_t>(collective_of(op, facts.size)), 0,
                                        std::numeric_limits<float>::max()});
      ++it->second.ranks;
      it->second.shortest_ns = std::min(it->second.shortest_ns, static_cast<float>(e.duration_ns));
    }
  }
  for (const auto& [op, entry] : entries) {
    matmuls_[entry.matmul].scaled_ns += entry.ns * std::max(numbers.scale({0, op}), 1.0);
  }
  return last_ns > first_ns ? static_cast<double>(last_ns - first_ns) : 0;
}

void RunOperationCollector::add(const RankRecord& rank) {
  out_.ranks.push_back(
      {.rank = rank.rank, .host = base::sanitize(rank.host), .gpu = base::sanitize(rank.gpu)});
  double window_ns = 0;
  const std::vector<Interval> collectives = timed_collectives(rank);
  for (const EventFile& file : rank.events) {
    window_ns += add(file, collectives);
  }
  end_rank(window_ns);
}

void RunOperationCollector::end_rank(double window_ns) {
  double scaled_ns = 0;
  for (Matmul& m : matmuls_) {
    if (!m.ns.empty() || !m.overlapped_ns.empty()) {
      const auto overlapped = static_cast<int64_t>(m.overlapped_ns.size());
      const std::vector<float>& counted = m.ns.empty() ? m.overlapped_ns : m.ns;
      m.matmul.ranks.push_back({.rank = out_.ranks.size() - 1,
                                .count = static_cast<int64_t>(counted.size()),
                                .median_s = median_of(counted) * 1e-9,
                                .overlapped = overlapped,
                                .only_overlapped = m.ns.empty()});
      m.matmul.count += static_cast<int64_t>(m.ns.size());
      m.matmul.overlapped += overlapped;
      m.matmul.total_s += m.scaled_ns * 1e-9;
      scaled_ns += m.scaled_ns;
    }
    m.ns.clear();
    m.overlapped_ns.clear();
    m.scaled_ns = 0;
  }
  if (window_ns > 0 && scaled_ns > 0) {
    busy_.push_back(std::min(scaled_ns / window_ns, 1.0));
  }
}

RunOperations RunOperationCollector::finish() {
  for (Matmul& m : matmuls_) {
    std::vector<double> medians;
    const bool any_alone = std::any_of(m.matmul.ranks.begin(), m.matmul.ranks.end(),
                                       [](const MatmulOnRank& r) { return !r.only_overlapped; });
    for (const MatmulOnRank& r : m.matmul.ranks) {
      if (!any_alone || !r.only_overlapped) {
        medians.push_back(r.median_s);
      }
    }
    m.matmul.median_s = median(std::move(medians));
    out_.matmuls.push_back(std::move(m.matmul));
  }
  std::vector<std::vector<double>> transfers(out_.collectives.size());
  for (const auto& [id, meeting] : meetings_) {
    if (meeting.ranks > 1) {
      transfers[meeting.collective].push_back(meeting.shortest_ns * 1e-9);
    }
  }
  for (size_t i = 0; i < transfers.size(); ++i) {
    out_.collectives[i].count = static_cast<int64_t>(transfers[i].size());
    out_.collectives[i].transfer_s = median(std::move(transfers[i]));
  }
  std::erase_if(out_.collectives, [](const RunCollective& c) { return c.count == 0; });
  std::stable_sort(out_.matmuls.begin(), out_.matmuls.end(),
                   [](const auto& a, const auto& b) { return a.total_s > b.total_s; });
  std::stable_sort(out_.collectives.begin(), out_.collectives.end(), [](const auto& a, const auto& b) {
    return a.transfer_s * static_cast<double>(a.count) > b.transfer_s * static_cast<double>(b.count);
  });
  out_.busy = median(busy_);
  return std::move(out_);
}

}  // namespace xpurun::report
