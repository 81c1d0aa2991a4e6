// Names, labels and units of DLRover's xpu_timer, for its dashboards: durations in microseconds, bus
// bandwidth in Gbit/s, throughput in TFLOP/s, all gauges. xpu_timer computed its statistics from averages;
// here they come from the newest single calls of each series.
#include "common/model/timing/op_names.h"
#include "launcher/metrics/other_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

namespace xpurun::launcher {

namespace {

struct Statistics {
  double average = 0;
  double maximum = 0;
  double p80 = 0;
  double p90 = 0;
  double p99 = 0;
  double p999 = 0;
  double p9999 = 0;
  double minimum = 0;
  double throughput = 0;  // work per microsecond
};

Statistics statistics_of(const std::deque<RecentSeries::Sample>& samples) {
  std::vector<double> us;
  double sum = 0;
  double work = 0;
  for (const RecentSeries::Sample& s : samples) {
    us.push_back(s.us);
    sum += s.us;
    work += s.work;
  }
  std::sort(us.begin(), us.end());
  const auto at = [&](double share) {
    return us[static_cast<size_t>(std::lround(share * static_cast<double>(us.size() - 1)))];
  };
  return {sum / static_cast<double>(us.size()),
          us.back(),
          at(0.8),
          at(0.9),
          at(0.99),
          at(0.999),
          at(0.9999),
          us.front(),
          sum > 0 ? work / sum : 0};
}

Labels common_labels(const NodeMetrics& node, const RankMetrics& rank) {
  const auto or_unset = [](const std::string& text) { return text.empty() ? std::string("NOT_SET") : text; };
  return {{"ip", or_unset(node.ip)},
          {"job_name", or_unset(node.job)},
          {"local_rank", fmt::format("{}", std::max(rank.local_rank, 0))},
          {"pod_name", or_unset(node.pod)},
          {"rank", fmt::format("{}", rank.rank == base::kNoRank ? 0 : rank.rank)}};
}

// A communicator with at most as many ranks as this node may lie within this node.
bool within_node(const NodeMetrics& node, const RankTiming& t) {
  return std::all_of(t.comms.begin(), t.comms.end(), [&](const CommTotals& comm) {
    return comm.nranks <= static_cast<int>(node.ranks.size());
  });
}

// "RING_LL"
std::string algorithm_text(const wire::CollectiveHow& how) {
  if (how.algorithm == 0) {
    return "NOT_SET";
  }
  std::string out(model::algorithm_name(how.algorithm));
  if (how.protocol != 0) {
    out += fmt::format("_{}", model::protocol_name(how.protocol));
  }
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::toupper(c); });
  return out;
}

void add_recent(const NodeMetrics& node, const RankMetrics& rank, Families& out) {
  for (const auto& [key, series] : rank.timing->recent) {
    const bool matmul = key.op_class == wire::OpClass::matmul;
    Labels labels = common_labels(node, rank);
    labels.emplace_back("dtype", series.dtype);
    labels.emplace_back("level", fmt::format("{}", key.level));
    labels.emplace_back("operation", key.operation);
    if (!matmul) {
      labels.emplace_back("algorithm", algorithm_text(series.how));
      labels.emplace_back("small", series.small ? "1" : "0");
      labels.emplace_back("transport", within_node(node, *rank.timing) ? "IntraNode" : "InterNode");
    }
    const Statistics s = statistics_of(series.samples);
    const std::string prefix = matmul ? "XPU_TIMER_MM_KERNEL_" : "XPU_TIMER_COLL_KERNEL_";
    const auto add = [&](const char* name, const char* help, double value) {
      out.add(prefix + name, FamilyType::gauge, help, labels, value);
    };
    add("AVG_LATENCY", "Mean duration in microseconds.", s.average);
    add("MAX_LATENCY", "Longest duration in microseconds.", s.maximum);
    add("P99_LATENCY", "99th percentile of the duration in microseconds.", s.p99);
    add("MIN_LATENCY", "Shortest duration in microseconds.", s.minimum);
    if (matmul) {
      add("FLOPS", "Throughput in TFLOP/s.", s.throughput / 1e6);
    } else {
      add("BANDWIDTH", "Bus bandwidth in Gbit/s.", s.throughput / 1e3);
    }
  }
}

void add_memory_counters(const NodeMetrics& node, const RankMetrics& rank, Families& out) {
  std::map<std::pair<std::string, std::string>, uint64_t> calls;
  for (const OpTotals& op : rank.timing->ops) {
    if (op.key.op_class == static_cast<uint8_t>(wire::OpClass::memory)) {
      calls[{std::string(model::api_name(op.key)), std::string(model::copy_direction(op.key))}] += op.calls;
    }
  }
  for (const auto& [call, count] : calls) {
    Labels labels = common_labels(node, rank);
    labels.emplace_back("operation", call.first);
    labels.emplace_back("kind", call.second);
    out.add_integer("XPU_TIMER_MEMORY_COUNTER", "Calls.", labels, count);
  }
}

void add_common(const NodeMetrics& node, const RankMetrics& rank, Families& out) {
  const Labels labels = common_labels(node, rank);
  out.add_integer("XPU_TIMER_COMMON_HANG", "1 while the rank is part of a hang.", labels, rank.hung ? 1 : 0);
  out.add_integer("XPU_TIMER_COMMON_START_DUMP", "1 during a dump.", labels, node.dumping ? 1 : 0);
  out.add_integer("XPU_TIMER_COMMON_GC_COUNT", "Garbage collections of Python.", labels, rank.collections);
  out.add_integer("XPU_TIMER_COMMON_DATA_LOADER_COUNT", "Batches requested from data loaders.", labels,
                  rank.batches);
  out.add("XPU_TIMER_COMMON_END_DUMP", FamilyType::gauge, "Duration of the last dump in seconds.", labels,
          node.last_dump_s);
}

// The shapes with the most calls. Each shape adds five families whose names contain the shape.
constexpr size_t kMostShapes = 64;

std::vector<const std::pair<const ShapeKey, ShapeSeries>*> commonest_shapes(const RankTiming& t) {
  std::vector<const std::pair<const ShapeKey, ShapeSeries>*> out;
  for (const auto& entry : t.shapes) {
    out.push_back(&entry);
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const auto* a, const auto* b) { return a->second.calls > b->second.calls; });
  out.resize(std::min(out.size(), kMostShapes));
  return out;
}

}  // namespace

void add_atorch(const NodeMetrics& node, Families& out) {
  const auto or_unknown = [](const std::string& text) { return text.empty() ? "unknown" : text; };
  for (const RankMetrics& rank : node.ranks) {
    if (rank.timing == nullptr) {
      continue;
    }
    for (const auto* entry : commonest_shapes(*rank.timing)) {
      const auto& [shape, series] = *entry;
      const bool batched = shape.batch > 1;
      const std::string name =
          batched ? fmt::format("atorch_bmm_bmnk_{}_{}_{}_{}", shape.batch, shape.m, shape.n, shape.k)
                  : fmt::format("atorch_mm_mnk_{}_{}_{}", shape.m, shape.n, shape.k);
      const Labels labels = {{"host_name", or_unknown(node.host)},
                             {"job_name", or_unknown(node.job)},
                             {"pod_name", or_unknown(node.pod)},
                             {"rank", fmt::format("{}", std::max(rank.rank, 0))},
                             {"type", batched ? "bmm" : "mm"}};
      const Statistics s = statistics_of(series.samples);
      const auto add = [&](const char* suffix, const char* help, double value) {
        out.add(name + suffix, FamilyType::gauge, help, labels, value);
      };
      out.add_integer(name + "_count", "Calls so far.", labels, series.calls);
      add("_qps", "Calls per second.", series.calls_per_s);
      add("_avg_latency", "Mean duration in microseconds.", s.average);
      add("_max_latency", "Longest duration in microseconds.", s.maximum);
      add("_p80_latency", "80th percentile of the duration in microseconds.", s.p80);
      add("_p90_latency", "90th percentile of the duration in microseconds.", s.p90);
      add("_p99_latency", "99th percentile of the duration in microseconds.", s.p99);
      add("_p999_latency", "99.9th percentile of the duration in microseconds.", s.p999);
      add("_p9999_latency", "99.99th percentile of the duration in microseconds.", s.p9999);
    }
  }
}

void add_xpu_timer(const NodeMetrics& node, Families& out) {
  if (node.ranks.empty()) {
    // Scrapers treat a job without this line as hung. Until the ranks are known, one line stands for all of
    // them.
    add_common(node, {.rank = 0, .local_rank = 0}, out);
  }
  for (const RankMetrics& rank : node.ranks) {
    add_common(node, rank, out);
    if (rank.timing == nullptr) {
      continue;
    }
    const uint32_t made = rank.timing->events_made;
    const uint32_t used = rank.timing->events_in_flight;
    out.add_integer("XPU_TIMER_COMMON_WORK_QUEUE_SIZE", "Calls with an event that are not known to be done.",
                    common_labels(node, rank), used);
    out.add_integer("XPU_TIMER_COMMON_POOL_QUEUE_SIZE", "Events that wait for a call.",
                    common_labels(node, rank), made - std::min(made, used));
    add_recent(node, rank, out);
    add_memory_counters(node, rank, out);
  }
}

}  // namespace xpurun::launcher
