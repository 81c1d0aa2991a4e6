#include "report/replay/comparison.h"

#include "common/model/timing/op_names.h"
#include "report/operations/operation_key.h"
#include "report/replay/problem.h"
#include "report/speed/primitives/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace xpurun::report {

namespace {

using model::Replay;
using model::ReplayedCollective;
using model::ReplayedMatmul;

model::ReplayTimes times_of(Repeated& measured) {
  model::ReplayTimes out{.repeats = static_cast<int64_t>(measured.ns.size()),
                         .sm_clock_mhz = measured.sm_clock_mhz,
                         .skipped = std::move(measured.skipped)};
  if (!measured.ns.empty()) {
    out.median_s = quantile(measured.ns, 0.5) * 1e-9;
    out.p10_s = quantile(measured.ns, 0.1) * 1e-9;
    out.p90_s = quantile(measured.ns, 0.9) * 1e-9;
  }
  return out;
}

double rate(double work, double seconds, double unit) {
  return work > 0 && seconds > 0 ? work / seconds / unit : -1;
}

double ratio(double a, double b) {
  return a > 0 && b > 0 ? a / b : -1;
}

// The time of a rank's calls, at its own speed and at the speeds with which it is compared.
struct RankSum {
  double own_s = 0;
  double median_s = 0;
  double replayed_own_s = 0;  // of the shapes that were replayed
  double replay_s = 0;
  int64_t slow_shapes = 0;
};

class Comparer {
 public:
  Comparer(const RunOperations& run, Measurements measured, double factor)
      : run_(run), measured_(std::move(measured)), sums_(run.ranks.size()) {
    out_.factor = factor;
    out_.all_matmuls = static_cast<int64_t>(run.matmuls.size());
    out_.device = std::move(measured_.device);
  }

  Replay take() {
    matmuls();
    collectives();
    ranks();
    notes();
    out_.sentence = sentence();
    return std::move(out_);
  }

 private:
  void matmuls() {
    double all_s = 0;
    for (const RunMatmul& m : run_.matmuls) {
      all_s += m.total_s;
    }
    for (size_t i = 0; i < std::min(run_.matmuls.size(), measured_.matmuls.size()); ++i) {
      const RunMatmul& from = run_.matmuls[i];
      const OperationKey words =
          key_of({.key = from.key, .function = from.function, .work = from.flop}, nullptr);
      ReplayedMatmul to{.shape = words.name,
                        .types = words.type,
                        .transposes = words.transposes,
                        .function = from.function,
                        .epilogue = epilogue_name(from.key.epilogue),
                        .flop = flop_of(from),
                        .count = from.count,
                        .overlapped = from.overlapped,
                        .share = all_s > 0 ? from.total_s / all_s : 0,
                        .median_s = from.median_s,
                        .tflops = rate(flop_of(from), from.median_s, 1e12),
                        .replay = times_of(measured_.matmuls[i])};
      to.replay_tflops = rate(to.flop, to.replay.median_s, 1e12);
      to.of_replay = ratio(to.replay.median_s, to.median_s);
      out_.covered += to.replay.repeats > 0 ? to.share : 0;
      shape_on_ranks(from, to);
      out_.matmuls.push_back(std::move(to));
    }
  }

  void shape_on_ranks(const RunMatmul& from, ReplayedMatmul& to) {
    for (const MatmulOnRank& r : from.ranks) {
      model::ShapeOnRank on{.rank = run_.ranks[r.rank].rank,
                            .count = r.count,
                            .median_s = r.median_s,
                            .tflops = rate(to.flop, r.median_s, 1e12),
                            .of_median = ratio(to.median_s, r.median_s),
                            .of_replay = ratio(to.replay.median_s, r.median_s),
                            .only_overlapped = r.only_overlapped};
      if (r.only_overlapped) {
        to.ranks.push_back(on);  // shown, not judged
        continue;
      }
      on.slow = from.ranks.size() > 1 && on.of_median < out_.factor;
      RankSum& sum = sums_[r.rank];
      const auto count = static_cast<double>(r.count);
      sum.own_s += count * r.median_s;
      sum.median_s += count * to.median_s;
      if (to.replay.repeats > 0) {
        sum.replayed_own_s += count * r.median_s;
        sum.replay_s += count * to.replay.median_s;
      }
      sum.slow_shapes += on.slow ? 1 : 0;
      to.ranks.push_back(on);
    }
  }

  void collectives() {
    out_.all_collectives = measured_.devices > 0 ? static_cast<int64_t>(run_.collectives.size()) : 0;
    double all_s = 0;
    for (const RunCollective& c : run_.collectives) {
      all_s += c.transfer_s * static_cast<double>(c.count);
    }
    for (size_t i = 0; i < std::min(run_.collectives.size(), measured_.collectives.size()); ++i) {
      const RunCollective& from = run_.collectives[i];
      ReplayedCollective to{
          .operation = std::string(model::collective_name(from.key)),
          .type = model::nccl_type_name(from.key.dtype[0]),
          .bytes = from.bytes,
          .size = from.size,
          .count = from.count,
          .share = all_s > 0 ? from.transfer_s * static_cast<double>(from.count) / all_s : 0,
          .transfer_s = from.transfer_s,
          .devices = measured_.devices,
          .replay = times_of(measured_.collectives[i])};
      const auto bytes = static_cast<double>(from.bytes);
      to.bus_gb_s = rate(bytes * model::bus_factor(to.operation, to.size), to.transfer_s, 1e9);
      to.replay_bus_gb_s = rate(bytes * model::bus_factor(to.operation, to.devices), to.replay.median_s, 1e9);
      to.of_replay = ratio(to.bus_gb_s, to.replay_bus_gb_s);
      out_.collectives.push_back(std::move(to));
    }
  }

  void ranks() {
    const auto with_calls =
        std::count_if(sums_.begin(), sums_.end(), [](const auto& s) { return s.own_s > 0; });
    std::vector<base::Rank> slow;
    for (size_t i = 0; i < sums_.size(); ++i) {
      const RankSum& sum = sums_[i];
      if (sum.own_s <= 0) {
        continue;
      }
      model::ReplayedRank to{.rank = run_.ranks[i].rank,
                             .host = run_.ranks[i].host,
                             .gpu = run_.ranks[i].gpu,
                             .of_median = ratio(sum.median_s, sum.own_s),
                             .of_replay = ratio(sum.replay_s, sum.replayed_own_s),
                             .slow_shapes = sum.slow_shapes};
      to.slow = with_calls > 1 && to.of_median < out_.factor;
      if (to.slow) {
        slow.push_back(to.rank);
      }
      out_.ranks.push_back(std::move(to));
    }
    out_.slow = model::RankSet::of(slow);
  }

  void notes() {
    std::set<std::string> gpus;
    for (const RunRank& r : run_.ranks) {
      if (!r.gpu.empty()) {
        gpus.insert(r.gpu);
      }
    }
    if (!gpus.empty() && !out_.device.name.empty() && !gpus.contains(out_.device.name)) {
      out_.notes.push_back(fmt::format("the run used {}, this GPU is {}: the speeds are not comparable",
                                       *gpus.begin(), out_.device.name));
    }
    if (!out_.matmuls.empty()) {
      out_.notes.emplace_back(
          "not recorded, and assumed in the replay: matrices without gaps, beta = 0, random normal data");
    }
    if (std::any_of(measured_.matmuls.begin(), measured_.matmuls.end(),
                    [](const auto& m) { return m.tf32; })) {
      out_.notes.emplace_back("fp32 matmuls that were faster than fp32 can be are replayed as TF32");
    }
    int64_t overlapped = 0;
    for (const RunMatmul& m : run_.matmuls) {
      overlapped += m.overlapped;
    }
    if (overlapped > 0) {
      out_.notes.push_back(
          fmt::format("{} timed matmuls beside a collective are left out: both share the GPU", overlapped));
    }
    if (run_.other_calls > 0) {
      out_.notes.push_back(
          fmt::format("{} timed calls are of shapes that the run did not record", run_.other_calls));
    }
    if (std::any_of(out_.collectives.begin(), out_.collectives.end(),
                    [](const auto& c) { return c.replay.repeats > 0 && c.size != c.devices; })) {
      out_.notes.push_back(fmt::format(
          "communicators of the run had another size than {} GPUs: compare the bus bandwidth only roughly",
          measured_.devices));
    }
  }

  std::string sentence() const {
    double own_s = 0;
    double replay_s = 0;
    for (const RankSum& sum : sums_) {
      own_s += sum.replayed_own_s;
      replay_s += sum.replay_s;
    }
    std::string out;
    if (!out_.slow.empty()) {
      out = fmt::format("{} {} slower than {:.2f} x the median of the ranks",
                        out_.slow.size() == 1 ? "rank " + out_.slow.text() : "ranks " + out_.slow.text(),
                        out_.slow.size() == 1 ? "is" : "are", out_.factor);
    } else if (out_.ranks.size() > 1) {
      out = fmt::format("no rank is slower than {:.2f} x the median of the ranks", out_.factor);
    }
    if (own_s > 0 && replay_s > 0) {
      out += fmt::format("{}the matmuls of the run reached {:.0f} % of the replayed speed",
                         out.empty() ? "" : "; ", 100 * replay_s / own_s);
    } else if (!out_.matmuls.empty()) {
      out += std::string(out.empty() ? "" : "; ") + "no matmul could be replayed";
    }
    return out;
  }

  const RunOperations& run_;
  Measurements measured_;
  std::vector<RankSum> sums_;
  Replay out_;
};

}  // namespace

Replay compare_with_replay(const RunOperations& run, Measurements measured, double factor) {
  return Comparer(run, std::move(measured), factor).take();
}

}  // namespace xpurun::report
