#include "launcher/metrics/exposition.h"

#include "common/model/timing/op_names.h"
#include "launcher/collect/gpu_time.h"
#include "launcher/metrics/other_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace xpurun::launcher {

namespace {

using enum FamilyType;

constexpr double kNs = 1e-9;
// These operations have series of their own; the others of their kind are summed as "other". The list is
// fixed, so that no counter ever decreases. With all other families: at most 156 series per rank.
constexpr std::array<std::string_view, 4> kTypes = {"bf16", "fp16", "fp32", "fp8_e4m3"};
constexpr std::array<std::string_view, 6> kCollectives = {"AllReduce", "AllGather", "ReduceScatter",
                                                          "SendRecv",  "Broadcast", "AlltoAll"};
constexpr std::array<std::string_view, 3> kAlgorithms = {"ring", "tree", "nvls"};
constexpr std::array<std::string_view, 2> kCollectiveHistograms = {"AllReduce", "AllGather"};
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kMemoryCalls = {
    {{"cudaMalloc", ""},
     {"cudaFree", ""},
     {"cudaMemcpyAsync", "H2D"},
     {"cudaMemcpyAsync", "D2H"},
     {"cudaMemcpyAsync", "D2D"},
     {"cudaMemsetAsync", ""}}};

template <size_t kSize>
std::string own_or_other(const std::array<std::string_view, kSize>& own, const std::string& name) {
  return std::find(own.begin(), own.end(), name) != own.end() ? name : "other";
}

std::pair<std::string, std::string> memory_call(const wire::OpKey& key) {
  const std::pair<std::string_view, std::string_view> call(model::api_name(key), model::copy_direction(key));
  const bool own = std::find(kMemoryCalls.begin(), kMemoryCalls.end(), call) != kMemoryCalls.end();
  return own ? std::pair(std::string(call.first), std::string(call.second))
             : std::pair(std::string("other"), std::string());
}

double number(uint64_t n) {
  return static_cast<double>(n);
}

std::string rank_label(base::Rank rank) {
  return rank == base::kNoRank ? "" : fmt::format("{}", rank);
}

struct Sums {
  uint64_t calls = 0;
  uint64_t captured = 0;
  double work = 0;
  double timed_work = 0;  // FLOP, bytes on the bus, or bytes
  double timed_s = 0;
  double possible = 0;    // peak FLOP of the device in the timed seconds; 0: unknown
  std::string_view peak;  // source of the peak
};

void add_to(Sums& s, const OpTotals& op, double factor) {
  s.calls += op.calls;
  s.captured += op.captured;
  s.work += number(op.work);
  s.timed_work += number(op.timed_work) * factor;
  s.timed_s += number(op.timed_ns) * kNs;
}

void add_to(Histogram& into, const Histogram& from) {
  for (size_t bucket = 0; bucket < from.counts.size(); ++bucket) {
    into.counts[bucket] += from.counts[bucket];
  }
  into.sum_s += from.sum_s;
}

struct KnownPeak {
  double flops = 0;
  std::string_view how;
};

// Without LOCAL_WORLD_SIZE, the number of ranks seen is used.
KnownPeak peak_of(const RankTiming& t, const wire::OpKey& key, const model::Peaks& peaks) {
  if (const double flops = peaks.of(t.device_name, key.dtype[0], key.compute); flops > 0) {
    return {flops, peaks.is_given(key.dtype[0], key.compute) ? "option" : "table"};
  }
  const auto best = t.best_flops.find(model::cuda_type_name(key.dtype[0]));
  return best == t.best_flops.end() ? KnownPeak{} : KnownPeak{best->second, "measured"};
}

// One measured value makes the sum measured.
void add_possible(Sums& s, const OpTotals& op, const KnownPeak& peak) {
  if (op.timed == 0) {
    return;
  }
  const bool first = s.peak.empty();
  const bool known = peak.flops > 0 && (first || s.possible > 0);
  s.possible = known ? s.possible + peak.flops * number(op.timed_ns) * kNs : 0;
  s.peak = first || peak.how == "measured" || !known ? (known ? peak.how : "unknown") : s.peak;
}

void add_matmuls(const RankTiming& t, const std::string& rank, const model::Peaks& peaks, Families& out) {
  std::map<std::string, Sums> by_type;
  for (const OpTotals& op : t.ops) {
    if (op.key.op_class == static_cast<uint8_t>(wire::OpClass::matmul)) {
      Sums& s = by_type[own_or_other(kTypes, model::cuda_type_name(op.key.dtype[0]))];
      add_to(s, op, 1);
      add_possible(s, op, peak_of(t, op.key, peaks));
    }
  }
  for (const auto& [type, s] : by_type) {
    const Labels labels = {{"rank", rank}, {"dtype", type}};
    out.add("xpurun_matmul_calls", counter, "Matrix multiplications of cuBLAS and cuBLASLt.", labels,
            number(s.calls));
    out.add("xpurun_matmul_flops", counter, "Floating-point operations of matrix multiplications.", labels,
            s.work);
    out.add("xpurun_matmul_busy_seconds", counter, "GPU time of timed matrix multiplications.", labels,
            s.timed_s);
    out.add("xpurun_matmul_timed_flops", counter,
            "Floating-point operations of timed matrix multiplications.", labels, s.timed_work);
    if (s.possible > 0) {
      out.add("xpurun_matmul_peak_ratio", gauge,
              "Throughput of timed matrix multiplications, as a share of the device's peak.",
              {{"rank", rank}, {"dtype", type}, {"peak", std::string(s.peak)}}, s.timed_work / s.possible);
    }
  }
  Histogram durations;
  for (const auto& [type, histogram] : t.matmul_durations) {
    add_to(durations, histogram);
  }
  if (durations.total() > 0) {
    out.add("xpurun_matmul_duration_seconds", "GPU time of single timed matrix multiplications.",
            {{"rank", rank}}, durations);
  }
}

using WaysByName = std::map<std::pair<std::string, std::string>, WayTotals>;  // by source and algorithm

// Few of the possible pairs occur: a rank has one time source for collectives and another for point-to-point
// groups. More than four pairs are unexpected; then the rarest are summed.
WaysByName most_of(WaysByName ways) {
  constexpr size_t kMost = 4;
  WayTotals rest;
  while (ways.size() > (rest.calls > 0 ? kMost - 1 : kMost)) {
    const auto rarest = std::min_element(ways.begin(), ways.end(), [](const auto& a, const auto& b) {
      return a.second.calls < b.second.calls;
    });
    rest.calls += rarest->second.calls;
    rest.channels += rarest->second.channels;
    ways.erase(rarest);
  }
  if (rest.calls > 0) {
    ways[{"other", "other"}] = rest;
  }
  return ways;
}

void add_ways(const RankTiming& t, const std::string& rank, Families& out) {
  WaysByName totals;
  for (const auto& [way, seen] : t.collective_ways) {
    const std::string name(model::algorithm_name(way.algorithm));
    WayTotals& sum = totals[{std::string(model::source_name(way.source)),
                             name == "unknown" ? name : own_or_other(kAlgorithms, name)}];
    sum.calls += seen.calls;
    sum.channels += seen.channels;
  }
  for (const auto& [way, sum] : most_of(std::move(totals))) {
    const Labels labels = {{"rank", rank}, {"source", way.first}, {"algorithm", way.second}};
    out.add("xpurun_collective_timed_calls", counter, "Timed collectives, by source of the time.", labels,
            number(sum.calls));
    if (sum.channels > 0) {
      out.add("xpurun_collective_channels", counter, "Sum of NCCL channels over timed collectives.", labels,
              number(sum.channels));
    }
  }
}

void add_collectives(const RankTiming& t, const std::string& rank, Families& out) {
  std::map<std::string, Sums> by_operation;
  for (const OpTotals& op : t.ops) {
    if (op.key.op_class == static_cast<uint8_t>(wire::OpClass::collective)) {
      const std::string operation(model::collective_name(op.key));
      const int ranks = op.key.comm < t.comms.size() ? t.comms[op.key.comm].nranks : 0;
      add_to(by_operation[own_or_other(kCollectives, operation)], op, model::bus_factor(operation, ranks));
    }
  }
  for (const auto& [operation, s] : by_operation) {
    const Labels labels = {{"rank", rank}, {"operation", operation}};
    out.add("xpurun_collective_calls", counter, "Collectives and point-to-point operations of NCCL.", labels,
            number(s.calls));
    out.add("xpurun_collective_bytes", counter, "Bytes of collectives, by the conventions of nccl-tests.",
            labels, s.work);
    out.add("xpurun_collective_busy_seconds", counter,
            "Time of timed collectives, including waiting for other ranks.", labels, s.timed_s);
    out.add("xpurun_collective_timed_bus_bytes", counter, "Bytes on the bus of timed collectives.", labels,
            s.timed_work);
  }
  std::map<std::string, Histogram> durations;
  for (const auto& [operation, histogram] : t.collective_durations) {
    add_to(durations[own_or_other(kCollectiveHistograms, operation)], histogram);
  }
  for (const auto& [operation, histogram] : durations) {
    out.add("xpurun_collective_duration_seconds", "Time of single timed collectives.",
            {{"rank", rank}, {"operation", operation}}, histogram);
  }
  add_ways(t, rank, out);
  uint64_t outstanding = 0;
  for (const CommTotals& comm : t.comms) {
    outstanding += comm.outstanding();
  }
  out.add("xpurun_collectives_outstanding", gauge, "Collectives handed to the GPU and not known to be done.",
          {{"rank", rank}}, number(outstanding));
}

void add_memory(const RankTiming& t, const std::string& rank, Families& out) {
  std::map<std::pair<std::string, std::string>, Sums> by_call;
  Sums graphs;
  for (const OpTotals& op : t.ops) {
    if (op.key.op_class == static_cast<uint8_t>(wire::OpClass::memory)) {
      add_to(by_call[memory_call(op.key)], op, 1);
    } else if (op.key.op_class == static_cast<uint8_t>(wire::OpClass::graph)) {
      add_to(graphs, op, 1);
    }
  }
  for (const auto& [call, s] : by_call) {
    const Labels labels = {{"rank", rank}, {"call", call.first}, {"direction", call.second}};
    out.add("xpurun_memory_calls", counter, "Allocations, copies and fills.", labels, number(s.calls));
    if (s.work > 0) {
      out.add("xpurun_memory_bytes", counter, "Bytes of memory operations.", labels, s.work);
    }
    out.add("xpurun_memory_seconds", counter,
            "Time of timed memory operations: host time if they block, else GPU time.", labels, s.timed_s);
  }
  if (graphs.calls > 0) {
    out.add("xpurun_graph_launches", counter, "Launches of CUDA graphs.", {{"rank", rank}},
            number(graphs.calls));
    out.add("xpurun_graph_busy_seconds", counter, "GPU time of timed graph launches.", {{"rank", rank}},
            graphs.timed_s);
  }
}

void add_gpu_time(const RankTiming& t, const std::string& rank, Families& out) {
  const GpuTime time = estimate_gpu_time(t.ops);
  for (const KindOfWork& kind : time.kinds) {
    if (kind.samples > 0) {
      const Labels labels = {{"rank", rank}, {"kind", std::string(kind.name)}};
      out.add("xpurun_gpu_time_estimated_seconds", gauge,
              "GPU time of all calls of a kind, estimated from timed calls.", labels, kind.seconds);
      out.add("xpurun_gpu_time_samples", counter, "Number of timed calls behind the estimate.", labels,
              number(kind.samples));
    }
  }
  if (const double share = time.untraced_share(); share >= 0) {
    out.add("xpurun_gpu_time_untraced_ratio", gauge,
            "Estimated share of GPU time in kernels without a library call.", {{"rank", rank}}, share);
  }
}

void add_ourselves(const RankMetrics& r, const std::string& rank, Families& out) {
  const RankTiming& t = *r.timing;
  const Labels labels = {{"rank", rank}};
  out.add("xpurun_timing_level", gauge, "Current timing level: 0 off, 1 light, 2 full.", labels,
          static_cast<double>(t.level));
  out.add("xpurun_sampling_period", gauge, "Sampling interval: one call of a kind in how many is timed.",
          labels, t.period);
  out.add("xpurun_overhead_seconds", counter, "Cost of timing in the threads of the rank.", labels,
          number(t.health.own_ns) * kNs);
  out.add("xpurun_poller_cpu_seconds", counter, "CPU time of the preload library's poller thread.", labels,
          number(t.health.poller_cpu_ns) * kNs);
  out.add("xpurun_untraced_kernel_launches", counter,
          "Kernels that the framework launched itself; their GPU time is only estimated.", labels,
          number(t.health.kernel_launches));
  out.add("xpurun_captured_calls", counter, "Calls that went into a CUDA graph.", labels,
          number(t.health.captured));
  out.add("xpurun_own_cuda_errors", counter, "Failed CUDA calls of the preload library.", labels,
          number(t.health.cuda_errors));
  for (const HealthField& field : kHealthFields) {
    if (!field.dropped_at.empty()) {
      out.add("xpurun_events_dropped", counter, "Durations or entries that found no room, by place.",
              {{"rank", rank}, {"stage", std::string(field.dropped_at)}}, number(t.health.*field.value));
    }
  }
  out.add("xpurun_events_dropped", counter, "", {{"rank", rank}, {"stage", "file"}},
          number(r.events_unwritten));
}

void add_machine(const model::MachineSeries& s, Families& out) {
  Labels labels{{"fact", std::string(name_of(s.fact))}, {"object", s.object}};
  if (s.rank >= 0) {
    labels.emplace_back("rank", rank_label(s.rank));
  }
  switch (unit_of(s.fact)) {
    case model::MachineUnit::events:
      out.add("xpurun_host_events", counter, "Events that the kernel has counted about the host.", labels,
              s.last);
      break;
    case model::MachineUnit::time:
      out.add("xpurun_host_wait_seconds", counter, "Time that the kernel has counted about the host.", labels,
              s.last / 1e6);
      break;
    case model::MachineUnit::level:
    case model::MachineUnit::state:
      out.add("xpurun_host_level", gauge, "Used share of a file system, or 1 while a state holds.", labels,
              s.last);
      break;
  }
}

void add_throttling(const GpuThrottling& gpu, Families& out) {
  out.add("xpurun_gpu_clock_observed_seconds", counter, "Time for which a GPU's clock was watched.",
          {{"gpu_uuid", gpu.uuid}}, gpu.observed_s);
  for (size_t i = 0; i < model::kThrottleReasons; ++i) {
    const auto reason = static_cast<model::ThrottleReason>(i);
    if (model::is_throttling(reason)) {
      out.add("xpurun_gpu_throttled_seconds", counter, "Time in which a GPU's clock was lowered, by reason.",
              {{"gpu_uuid", gpu.uuid}, {"reason", std::string(name_of(reason))}}, gpu.throttled_s[i]);
    }
  }
}

void add_lateness(const RankLateness& l, const std::string& rank, Families& out) {
  if (l.looked_s <= 0) {
    return;
  }
  const Labels labels = {{"rank", rank}};
  out.add("xpurun_lateness_seconds", counter,
          "Time by which the rank arrived at collectives after the median of the node's other ranks, while "
          "every collective was timed.",
          labels, l.late_s);
  out.add("xpurun_lateness_cost_seconds", counter,
          "Time by which the rank arrived last at collectives, after the last but one.", labels, l.cost_s);
  out.add("xpurun_lateness_observed_seconds", counter, "Time in which every collective was timed.", labels,
          l.looked_s);
  if (l.exposed_share >= 0) {
    out.add(
        "xpurun_exposed_communication_ratio", gauge,
        "Share of that time, the latest of it, in which collectives ran and no recorded compute; an upper "
        "limit.",
        labels, l.exposed_share);
  }
}

void add_cpu_losses(const CpuLosses& cpu, const std::string& rank, Families& out) {
  const Labels labels = {{"rank", rank}};
  if (cpu.ready_s >= 0) {
    out.add("xpurun_cpu_delay_seconds", counter,
            "Time that the rank's threads were ready to run and had no CPU, of all threads together.", labels,
            cpu.ready_s);
  }
  if (cpu.throttled_s >= 0) {
    out.add("xpurun_cpu_throttled_seconds", counter,
            "Time for which the CPU limit of the rank's control groups kept it from running.", labels,
            cpu.throttled_s);
  }
  if (cpu.stolen_s >= 0) {
    out.add("xpurun_cpu_stolen_seconds", counter,
            "Time that the hypervisor took from a thread that had a CPU of the rank's host.", labels,
            cpu.stolen_s);
  }
}

void add_host_memory(const HostMemory& memory, const std::string& rank, Families& out) {
  const Labels labels = {{"rank", rank}};
  if (memory.resident_bytes >= 0) {
    out.add("xpurun_resident_bytes", gauge, "Host memory of the rank that is in RAM.", labels,
            static_cast<double>(memory.resident_bytes));
  }
  if (memory.helpers_bytes >= 0) {
    out.add("xpurun_helpers_private_bytes", gauge,
            "Private host memory of the processes that the rank has started.", labels,
            static_cast<double>(memory.helpers_bytes));
  }
}

void add_gpu_memory(const model::GpuMemory& memory, const std::string& rank, Families& out) {
  const auto add = [&](const char* what, int64_t bytes) {
    out.add("xpurun_gpu_memory_bytes", gauge,
            "GPU memory of the rank by PyTorch's allocator: allocated in tensors, reserved from the device, "
            "most that was allocated, and all of the device.",
            {{"rank", rank}, {"what", what}}, static_cast<double>(bytes));
  };
  if (memory.known()) {
    add("allocated", memory.allocated_bytes);
    add("reserved", memory.reserved_bytes);
    add("peak", memory.peak_bytes);
    add("total", memory.total_bytes);
  }
}

}  // namespace

std::string_view content_type(MetricsFormat format) {
  return format == MetricsFormat::openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                              : "text/plain; version=0.0.4; charset=utf-8";
}

std::string expose(const NodeMetrics& node, MetricsFormat format) {
  Families out(format);
  out.add("xpurun_build", info, "Version of xpurun.", {{"version", node.version}}, 1);
  for (const RankMetrics& r : node.ranks) {
    Labels who = {
        {"rank", rank_label(r.rank)}, {"local_rank", fmt::format("{}", r.local_rank)}, {"host", node.host}};
    who.insert(who.end(), {{"job", node.job}, {"pod", node.pod}, {"ip", node.ip}});
    const bool timed = r.timing != nullptr;
    who.insert(who.end(), {{"gpu_uuid", timed ? r.timing->device_uuid : ""},
                           {"pci_bus_id", timed ? r.timing->pci_bus_id : ""},
                           {"gpu", timed ? r.timing->device_name : ""}});
    out.add("xpurun_rank", info, "Identity of a rank, to join with other families.", who, 1);
    out.add("xpurun_hang", gauge, "1 while the rank is part of a hang.", {{"rank", rank_label(r.rank)}},
            r.hung ? 1 : 0);
    if (r.still_s >= 0) {
      out.add("xpurun_still_seconds", gauge,
              "Time since the last observed progress of the rank's main thread.",
              {{"rank", rank_label(r.rank)}}, r.still_s);
    }
    if (r.step_s >= 0) {
      const Labels labels = {{"rank", rank_label(r.rank)}};
      out.add("xpurun_step_seconds", gauge, "Mean duration of the rank's last steps of training.", labels,
              r.step_s);
      out.add("xpurun_steps", counter, "Steps of training that were seen.", labels, number(r.steps));
    }
    add_lateness(r.lateness, rank_label(r.rank), out);
    add_cpu_losses(r.cpu, rank_label(r.rank), out);
    add_host_memory(r.memory, rank_label(r.rank), out);
    add_gpu_memory(r.gpu, rank_label(r.rank), out);
    if (timed) {
      add_matmuls(*r.timing, rank_label(r.rank), node.peaks, out);
      add_collectives(*r.timing, rank_label(r.rank), out);
      add_memory(*r.timing, rank_label(r.rank), out);
      add_gpu_time(*r.timing, rank_label(r.rank), out);
      add_ourselves(r, rank_label(r.rank), out);
    }
  }
  for (const Culprit& c : node.culprits) {
    out.add("xpurun_culprit", gauge, "1 while the rank is to blame for a stall or for slow steps.",
            {{"rank", rank_label(c.rank)}, {"reason", c.reason}}, 1);
  }
  for (const GpuThrottling& gpu : node.gpus) {
    add_throttling(gpu, out);
  }
  for (const model::MachineSeries& series : node.machine) {
    add_machine(series, out);
  }
  out.add("xpurun_slow_events", counter, "Times that the job was found to have become slower.", {},
          number(node.slow_events));
  out.add("xpurun_lost_gpu_seconds", counter,
          "Time that the ranks of the node have lost together in stalls and in slower steps, a GPU a rank.",
          {}, node.lost_rank_s);
  out.add("xpurun_silent_mismatches", counter,
          "Communicators in which ranks of this node made different calls that ended: their data are wrong.",
          {}, number(node.mismatches));
  add_xpu_timer(node, out);
  if (node.shapes) {
    add_atorch(node, out);
  }
  return out.text();
}

}  // namespace xpurun::launcher
