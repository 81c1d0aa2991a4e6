#include "report/speed/ranks/causes.h"

#include "report/speed/primitives/statistics.h"
#include "report/speed/ranks/call_counts.h"
#include "report/speed/ranks/launches.h"
#include "report/speed/ranks/matmul_shapes.h"

#include <algorithm>
#include <functional>
#include <optional>

namespace xpurun::report {

namespace {

using model::SlowCause;
using model::Stage;

constexpr double kLeastFaults = 1;    // major page faults of a step
constexpr double kStarved = 20e-6;    // s from call to start: the GPU had waited for the call
constexpr double kLostByOthers = 2;   // times the CPU time that the ranks use more than others
constexpr double kAlsoLost = 0.2;     // of what the blamed ranks lose
constexpr double kMostBetween = 0.8;  // of the excess
constexpr double kLongerBetween = 3;  // times the time of the others
constexpr double kOtherShapes = 0.3;
constexpr double kMoreCalls = 1.03;       // times as many as usual
constexpr double kMoreCollectives = 1.5;  // times as many as before
constexpr double kMoreCpu = 1.3;          // times the CPU time of the others
constexpr double kBusy = 0.8;             // of the own time
constexpr double kLeastReads = 5;         // of a step
constexpr double kMoreReads = 4;          // times as many as on another rank
constexpr double kIdleUntil = 100e-6;     // s from call to start: the GPU was idle at the call
constexpr double kHalf = 0.5;
constexpr double kLeastFelt = 0.25;   // of what a step takes longer
constexpr double kMostRanks = 0.75;   // share of the ranks from which on a change is one of the job
constexpr double kSlowFault = 10e-3;  // s of one page fault: a read of a slow disk
constexpr int64_t kLeastLaunches = 64;
constexpr double kLeastQueue = 50e-6;  // launch latency of a GPU that has work to do
constexpr double kEmptier = 4;         // the latency before, over that of now

using Part = std::function<double(const RankMeans&)>;

Part stage_part(Stage stage) {
  return [stage](const RankMeans& m) { return m.stages[stage]; };
}

double median_of(const std::vector<RankMeans>& means, const std::vector<bool>& in, const Part& part) {
  std::vector<double> values;
  for (size_t r = 0; r < means.size(); ++r) {
    if (in[r] && means[r].steps > 0) {
      values.push_back(part(means[r]));
    }
  }
  return quantile(values, 0.5);
}

double known_or_zero(double seconds) {
  return std::max(seconds, 0.0);
}

double lost_cpu(const RankMeans& m) {
  return known_or_zero(m.lost_cpu_s);
}

// How long these ranks lack a CPU for each second in which they use one: on a loaded machine, a rank that has
// more to do lacks the CPU longer as well.
double lost_of_used(const std::vector<RankMeans>& means, const std::vector<bool>& ranks) {
  const double used = median_of(means, ranks, [](const RankMeans& m) { return known_or_zero(m.cpu_s); });
  return used > 0 ? median_of(means, ranks, lost_cpu) / used : 0;
}

// The taker of most of `excess_s`, if the limit or the hypervisor is it. `part_excess` compares parts of
// ranks.
void name_taker(const std::vector<RankMeans>& means, const std::vector<bool>& ranks, double excess_s,
                const std::function<double(const Part&)>& part_excess, Cause& cause) {
  const Part throttled = [](const RankMeans& m) { return known_or_zero(m.throttled_s); };
  const Part stolen = [](const RankMeans& m) { return known_or_zero(m.stolen_s); };
  const double by_limit = part_excess(throttled);
  const double by_hypervisor = part_excess(stolen);
  if (std::max(by_limit, by_hypervisor) < kHalf * excess_s) {
    return;
  }
  const bool limit = by_limit >= by_hypervisor;
  cause.taker = limit ? CpuTaker::limit : CpuTaker::hypervisor;
  cause.taken = median_of(means, ranks, [&](const RankMeans& m) {
    return m.step_s > 0 ? std::min((limit ? throttled(m) : stolen(m)) / m.step_s, 1.0) : 0;
  });
}

// From the call to the start on the GPU, of the blamed ranks and of the others; medians of the ranks'
// medians.
struct Delays {
  double blamed_s = -1;  // negative: not known
  double others_s = -1;
  bool starved = false;  // the queues of all blamed ranks are empty, those of the others are not
};

Delays launch_delays(const JobSteps& job, const std::vector<bool>& blamed, StepWindow window) {
  std::map<base::Rank, bool> is_blamed;
  for (size_t r = 0; r < job.ranks(); ++r) {
    is_blamed[job.rank(r).rank] = blamed[r];
  }
  std::vector<double> slow;
  std::vector<double> others;
  bool stand_out = true;
  for (const model::RankLaunches& one : rank_launches(job, window)) {
    (is_blamed[one.rank] ? slow : others).push_back(one.median_s);
    stand_out = stand_out && (one.starved || !is_blamed[one.rank]);
  }
  if (slow.empty() || others.empty()) {
    return {};
  }
  const double shortest = *std::min_element(slow.begin(), slow.end());
  Delays out{.blamed_s = quantile(slow, 0.5), .others_s = quantile(others, 0.5)};
  out.starved = stand_out || (shortest <= kStarved && out.others_s > 2 * kStarved);
  return out;
}

// Launch latencies now and before, if the queues of most GPUs were full before and are empty now; else
// negative.
std::pair<double, double> emptier_queues(const JobSteps& job, StepWindow before, StepWindow after) {
  std::map<base::Rank, double> earlier;
  for (const model::RankLaunches& one : rank_launches(job, before)) {
    if (one.calls >= kLeastLaunches) {
      earlier[one.rank] = one.median_s;
    }
  }
  std::vector<double> now_s;
  std::vector<double> before_s;
  size_t emptier = 0;
  for (const model::RankLaunches& one : rank_launches(job, after)) {
    const auto was = earlier.find(one.rank);
    if (one.calls < kLeastLaunches || was == earlier.end()) {
      continue;
    }
    now_s.push_back(one.median_s);
    before_s.push_back(was->second);
    emptier +=
        one.median_s <= kStarved && was->second >= std::max(kLeastQueue, kEmptier * one.median_s) ? 1 : 0;
  }
  const bool most =
      !now_s.empty() && static_cast<double>(emptier) >= kMostRanks * static_cast<double>(now_s.size());
  return most ? std::pair(quantile(now_s, 0.5), quantile(before_s, 0.5)) : std::pair(-1.0, -1.0);
}

// A step without pauses.
double working_part(const RankMeans& m) {
  double sum = 0;
  for (size_t s = 0; s < model::kStepStages; ++s) {
    const auto stage = static_cast<Stage>(s);
    sum += stage == Stage::checkpoint || stage == Stage::evaluation ? 0 : m.stages[stage];
  }
  return sum;
}

// The stage of the model's own work with the largest excess.
Stage busiest(const std::function<double(Stage)>& excess) {
  Stage out = Stage::forward;
  for (const Stage stage : {Stage::backward, Stage::optimizer, Stage::other}) {
    out = excess(stage) > excess(out) ? stage : out;
  }
  return out;
}

// The matmuls of the blamed ranks in `now` and what is usual: on the others, or on themselves before. If they
// take `least_s` more of a step, or have other shapes.
std::optional<Cause> more_work(const JobSteps& job, const std::vector<bool>& blamed, StepWindow now,
                               const MeansOfWindow* before, double least_s) {
  const auto middle = [&](const std::vector<MatmulWork>& of, bool in, double MatmulWork::*part) {
    std::vector<double> values;
    for (size_t r = 0; r < of.size(); ++r) {
      if (blamed[r] == in) {
        values.push_back(of[r].*part);
      }
    }
    return quantile(values, 0.5);
  };
  const std::vector<MatmulWork> work = matmul_work(job, now);
  const std::vector<MatmulWork> earlier =
      before != nullptr ? matmul_work(job, before->window) : std::vector<MatmulWork>();
  const auto excess = [&](const std::vector<MatmulWork>& of, double MatmulWork::*part) {
    return of.empty() ? 0 : middle(of, true, part) - middle(of, false, part);
  };
  const double more_s = excess(work, &MatmulWork::seconds) - excess(earlier, &MatmulWork::seconds);
  const double usual_shapes = before != nullptr ? other_shapes(job, blamed, before->window) : 0;
  if (more_s < least_s && other_shapes(job, blamed, now) - usual_shapes < kOtherShapes) {
    return {};
  }
  Cause out{.kind = SlowCause::more_work,
            .usual_is_before = before != nullptr,
            .graphs = mostly_graphs(job, blamed, now)};
  const double calls = middle(work, true, &MatmulWork::calls);
  const double usual =
      before != nullptr ? middle(earlier, true, &MatmulWork::calls) : middle(work, false, &MatmulWork::calls);
  if (more_s >= least_s && usual > 0 && calls >= kMoreCalls * usual) {
    out.matmuls = calls;
    out.usual_matmuls = usual;
  }
  return out;
}

// Whether the passes themselves compute longer, as with a larger batch: of that, CPU times are the only sign
// without a GPU.
void look_at_passes(const std::vector<RankMeans>& means, const std::vector<bool>& blamed,
                    const std::vector<bool>& others, Cause& cause) {
  const Part passes = [](const RankMeans& m) { return m.backward_cpu_s; };
  const Part cpu = [](const RankMeans& m) { return known_or_zero(m.cpu_s); };
  const double here = median_of(means, blamed, cpu);
  const double usual = median_of(means, others, cpu);
  const bool longer = usual > 0 && here >= kMoreCpu * usual &&
                      median_of(means, blamed, passes) >= kMoreCpu * median_of(means, others, passes);
  // Who computes longer also waits longer for a CPU.
  const double more_s =
      here + median_of(means, blamed, lost_cpu) - usual - median_of(means, others, lost_cpu);
  if (!longer || more_s < kHalf * cause.excess_s) {
    return;
  }
  cause.computes = here / usual;
  cause.cpu_busy = here + median_of(means, blamed, lost_cpu) >=
                   kBusy * median_of(means, blamed, [](const RankMeans& m) { return m.own_s; });
}

Cause cause_by_times(const JobSteps& job, const MeansOfWindow& now, const Blame& blame,
                     const MeansOfWindow* before) {
  const std::vector<RankMeans>& means = now.means;
  const StepWindow window = now.window;
  std::vector<bool> blamed(means.size(), false);
  for (const size_t r : blame.ranks) {
    blamed[r] = true;
  }
  std::vector<bool> others = blamed;
  others.flip();
  const auto excess_in = [&](const std::vector<RankMeans>& of, const Part& part) {
    return median_of(of, blamed, part) - median_of(of, others, part);
  };
  const auto excess = [&](const Part& part) {
    return excess_in(means, part) - (before != nullptr ? excess_in(before->means, part) : 0);
  };
  const auto stage_excess = [&](Stage stage) { return excess(stage_part(stage)); };
  // No more than they cost: waits overlap with computing.
  const double total = std::min(excess([](const RankMeans& m) { return m.own_s; }), blame.lost_s);
  const double data = stage_excess(Stage::data);
  const double garbage = stage_excess(Stage::garbage);
  const bool delays_known = median_of(means, blamed, [](const RankMeans& m) { return m.lost_cpu_s; }) >= 0;
  // Who uses more CPU on a busy machine also waits more for it.
  const double used = known_or_zero(excess([](const RankMeans& m) { return known_or_zero(m.cpu_s); }));
  const double lost = delays_known ? excess(lost_cpu) : 0;
  const auto unexplained = [&](const std::vector<RankMeans>& of) {
    const double usual = lost_of_used(of, others);
    return excess_in(of,
                     [usual](const RankMeans& m) { return lost_cpu(m) - usual * known_or_zero(m.cpu_s); });
  };
  const double alone = unexplained(means) - (before != nullptr ? unexplained(before->means) : 0);
  // A rank that other programs keep from the CPU lacks it in all stages, not between them only.
  const bool between_only = stage_excess(Stage::other) >= kMostBetween * total &&
                            median_of(means, blamed, stage_part(Stage::other)) >=
                                kLongerBetween * median_of(means, others, stage_part(Stage::other));
  const double delay = lost >= kLostByOthers * used && !between_only ? std::min(lost, alone) : 0;
  // Threads other than the main one may lack a CPU at the same time.
  const double contention = std::min(delay, total - data - garbage);
  const double rest = total - data - garbage - std::max(contention, 0.0);
  Cause out{.excess_s = total};
  if (data >= std::max({garbage, contention, rest})) {
    return {.kind = SlowCause::input, .stage = Stage::data, .excess_s = data};
  }
  if (garbage >= std::max(contention, rest)) {
    return {.kind = SlowCause::gc, .stage = Stage::garbage, .excess_s = garbage};
  }
  out.stage = busiest(stage_excess);
  if (contention >= rest) {
    out.kind = SlowCause::cpu_contention;
    out.excess_s = contention;
    out.on_loaded_machine =
        median_of(means, others, lost_cpu) >= kAlsoLost * median_of(means, blamed, lost_cpu);
    name_taker(means, blamed, contention, excess, out);
    return out;
  }
  out.excess_s = rest;
  if (const double slower = slower_shapes(job, blamed, window); slower >= kSlowShapes) {
    return {.kind = SlowCause::gpu_compute,
            .stage = out.stage,
            .excess_s = rest,
            .slowdown = slower,
            .graphs = mostly_graphs(job, blamed, window)};
  }
  if (auto more = more_work(job, blamed, window, before, kHalf * rest)) {
    more->stage = out.stage;
    more->excess_s = rest;
    return *more;
  }
  if (excess([](const RankMeans& m) { return m.faults; }) >= kLeastFaults) {
    out.kind = SlowCause::memory;
    return out;
  }
  bool gpu = false;
  for (size_t r = 0; r < job.ranks(); ++r) {
    gpu = gpu || (blamed[r] && !job.rank(r).gpu.empty());
  }
  const Delays delays = launch_delays(job, blamed, window);
  const Part pause = [](const RankMeans& m) { return m.pause_s; };
  if (gpu && median_of(means, blamed, pause) >= 0 && median_of(means, others, pause) >= 0) {
    // The GPU's clock tells whether the rank's GPU waits for its host; times of hosts that run ahead do not.
    const bool late = median_of(means, blamed, [](const RankMeans& m) { return m.lead_s; }) <= kIdleUntil &&
                      excess(pause) >= kHalf * rest;
    if (late || delays.starved) {
      out.kind = SlowCause::host_issue;
      out.stage = busiest([&](Stage stage) { return median_of(means, blamed, stage_part(stage)); });
      out.launch_s = delays.starved ? delays.blamed_s : -1;
      out.others_launch_s = delays.starved ? delays.others_s : -1;
    }
    return out;
  }
  // Without a GPU the host does the work itself; with a GPU, times of the host show the work's issue.
  const bool seen = stage_excess(out.stage) >= kHalf * rest;
  const double in_backward = excess([](const RankMeans& m) { return m.backward_cpu_s; });
  if (!gpu && !seen && in_backward > kHalf * stage_excess(out.stage)) {
    out.stage = Stage::backward;  // there the others wait as long
  }
  if (delays.starved) {
    out.launch_s = delays.blamed_s;
    out.others_launch_s = delays.others_s;
  }
  out.kind = delays.starved || !gpu || (seen && (out.stage == Stage::other || out.stage == Stage::forward))
                 ? SlowCause::host_issue
                 : SlowCause::unknown;
  if (out.kind == SlowCause::host_issue && !gpu &&
      (out.stage == Stage::forward || out.stage == Stage::backward)) {
    look_at_passes(means, blamed, others, out);
  }
  return out;
}

// A read of a value ends the host's lead, so its times cannot be told from those of its GPU.
void look_at_reads(const JobSteps& job, const MeansOfWindow& now, const Blame& blame, Cause& cause) {
  if (cause.kind != SlowCause::unknown && cause.kind != SlowCause::host_issue) {
    return;
  }
  double here = 0;
  double others = 0;
  for (size_t r = 0; r < job.ranks(); ++r) {
    const bool blamed = std::binary_search(blame.ranks.begin(), blame.ranks.end(), r);
    double& most = blamed ? here : others;
    most = std::max(most, reads_per_step(job, r, now.window));
  }
  if (here >= kLeastReads && here >= kMoreReads * others) {
    cause.kind = SlowCause::host_issue;
    cause.stage = cause.stage == Stage::backward ? Stage::other : cause.stage;
    cause.reads = here;
  }
}

// Whether most ranks call more collectives in a step than before.
bool more_collectives(const std::vector<RankMeans>& before, const std::vector<RankMeans>& after) {
  size_t known = 0;
  size_t more = 0;
  for (size_t r = 0; r < after.size(); ++r) {
    if (before[r].steps > 0 && after[r].steps > 0) {
      ++known;
      more += after[r].calls >= std::max(kMoreCollectives * before[r].calls, before[r].calls + 1) ? 1 : 0;
    }
  }
  return known > 0 && static_cast<double>(more) >= kMostRanks * static_cast<double>(known);
}

// The part of the excess `total` that is no wait for another rank. Where now one rank lacks a CPU and then
// another, each waits for the others most of the time.
double felt_by_each(const std::vector<RankMeans>& before, const std::vector<RankMeans>& after, double total) {
  const std::vector<bool> all(after.size(), true);
  const Part own = [](const RankMeans& m) { return m.own_s; };
  const double now_s = median_of(after, all, own);
  const double before_s = median_of(before, all, own);
  return now_s < 0 || before_s < 0 ? total : std::clamp(now_s - before_s, kLeastFelt * total, total);
}

}  // namespace

Cause cause_of(const JobSteps& job, const MeansOfWindow& now, const Blame& blame,
               const MeansOfWindow* before) {
  Cause out = cause_by_times(job, now, blame, before);
  look_at_reads(job, now, blame, out);
  return out;
}

bool seen_on_host(const Cause& cause) {
  return cause.kind == SlowCause::input || cause.kind == SlowCause::gc ||
         (cause.kind == SlowCause::host_issue && cause.stage != Stage::backward);
}

bool only_leave_collectives_late(const std::vector<RankMeans>& means, const Blame& blame) {
  constexpr double kManyCalls = 8;  // of a step
  constexpr double kSome = 0.3;     // of what the ranks cost
  std::vector<bool> blamed(means.size(), false);
  for (const size_t r : blame.ranks) {
    blamed[r] = true;
  }
  std::vector<bool> others = blamed;
  others.flip();
  const auto excess = [&](const Part& part) {
    return median_of(means, blamed, part) - median_of(means, others, part);
  };
  double own_s = excess([](const RankMeans& m) { return m.backward_cpu_s; });
  for (size_t s = 0; s < model::kStepStages; ++s) {
    const auto stage = static_cast<Stage>(s);
    own_s = stage == Stage::communication ? own_s : std::max(own_s, excess(stage_part(stage)));
  }
  return median_of(means, blamed, [](const RankMeans& m) { return m.calls; }) >= kManyCalls &&
         own_s < kSome * blame.lost_s;
}

Cause cause_of_change(const JobSteps& job, const MeansOfWindow& before, const MeansOfWindow& after) {
  const std::vector<bool> all(job.ranks(), true);
  const auto excess = [&](const Part& part) {
    return median_of(after.means, all, part) - median_of(before.means, all, part);
  };
  const auto stage_excess = [&](Stage stage) { return excess(stage_part(stage)); };
  const double total = excess(working_part);
  Cause out{.stage = busiest(stage_excess), .excess_s = total};
  const auto explains = [total](double part) { return part >= kHalf * total; };
  if (total <= 0) {
    return out;
  }
  if (const double part = stage_excess(Stage::data); explains(part)) {
    return {.kind = SlowCause::input, .stage = Stage::data, .excess_s = part};
  }
  if (const double part = stage_excess(Stage::garbage); explains(part)) {
    return {.kind = SlowCause::gc, .stage = Stage::garbage, .excess_s = part};
  }
  if (explains(stage_excess(Stage::communication)) && more_collectives(before.means, after.means)) {
    const Part calls = [](const RankMeans& m) { return m.calls; };
    out.kind = SlowCause::more_work;
    out.stage = Stage::communication;
    out.calls = median_of(after.means, all, calls);
    out.usual_calls = median_of(before.means, all, calls);
    return out;
  }
  const double lost = excess(lost_cpu);
  if (lost >= kHalf * felt_by_each(before.means, after.means, total)) {
    out.kind = SlowCause::cpu_contention;
    out.excess_s = std::min(lost, total);
    name_taker(after.means, all, out.excess_s, excess, out);
    return out;
  }
  if (const double now = median_of(after.means, all, lost_cpu);
      now >= kAlsoLost * median_of(after.means, all, working_part)) {
    out.no_cpu_s = now;
    out.no_cpu_before_s = median_of(before.means, all, lost_cpu);
  }
  const double step_s = median_of(before.means, all, working_part);
  if (const double slower = slower_than_before(job, before.window, after.window);
      step_s > 0 && slower >= std::max(kSlowShapes, kHalf * total / step_s)) {
    return {.kind = SlowCause::gpu_compute, .stage = out.stage, .excess_s = total, .slowdown = slower};
  }
  if (const double part = stage_excess(Stage::communication); explains(part)) {
    return {.kind = SlowCause::network, .stage = Stage::communication, .excess_s = part};
  }
  const auto transfer = [](const RankMeans& m) { return m.transfer_s; };
  if (median_of(before.means, all, transfer) >= 0 && median_of(after.means, all, transfer) >= 0 &&
      explains(excess(transfer))) {
    return {.kind = SlowCause::network,
            .stage = Stage::communication,
            .excess_s = std::min(excess(transfer), total)};
  }
  if (const double faults = excess([](const RankMeans& m) { return m.faults; });
      faults >= kLeastFaults && explains(faults * kSlowFault)) {
    out.kind = SlowCause::memory;
    return out;
  }
  if (const auto [now_s, before_s] = emptier_queues(job, before.window, after.window); now_s >= 0) {
    out.kind = SlowCause::host_issue;
    out.launch_s = now_s;
    out.others_launch_s = before_s;
  }
  return out;
}

bool between_stages(const std::vector<RankMeans>& before, const std::vector<RankMeans>& after) {
  const std::vector<bool> all(after.size(), true);
  const auto excess = [&](const Part& part) {
    return median_of(after, all, part) - median_of(before, all, part);
  };
  return excess(stage_part(Stage::other)) >= kMostBetween * excess(working_part);
}

std::optional<Cause> taken_from_all(const std::vector<RankMeans>& means, double least) {
  const std::vector<bool> all(means.size(), true);
  Cause out{.kind = SlowCause::cpu_contention};
  name_taker(
      means, all, 0, [&](const Part& part) { return median_of(means, all, part); }, out);
  out.excess_s = out.taken * median_of(means, all, [](const RankMeans& m) { return m.step_s; });
  return out.taken >= least ? std::optional(out) : std::nullopt;
}

std::vector<model::CauseShare> what_if(const JobSteps& job, const OwnTimes& own, StepWindow window,
                                       double least) {
  struct Without {
    SlowCause cause;
    Stage stage;
    double sum = 0;
  };
  Without causes[] = {{SlowCause::input, Stage::data}, {SlowCause::gc, Stage::garbage}};
  double all = 0;  // seconds of the longest rank in each step: without waits, steps of ranks differ in length
  for (size_t i = window.first; i < window.last; ++i) {
    float most = 0;
    double longest = 0;
    double without[std::size(causes)] = {};
    const auto step = own.step(i);
    for (size_t r = 0; r < step.size(); ++r) {
      const StepRecord* record = job.at(r, i);
      if (record == nullptr || step[r] < 0) {
        continue;
      }
      most = std::max(most, step[r]);
      longest = std::max(longest, static_cast<double>(record->duration_ns) * 1e-9);
      for (size_t c = 0; c < std::size(causes); ++c) {
        const double part =
            static_cast<double>(record->stage_ns[static_cast<size_t>(causes[c].stage)]) * 1e-9;
        without[c] = std::max(without[c], static_cast<double>(step[r]) - part);
      }
    }
    for (size_t c = 0; c < std::size(causes); ++c) {
      causes[c].sum += static_cast<double>(most) - without[c];
    }
    all += longest;
  }
  std::vector<model::CauseShare> out;
  for (const Without& one : causes) {
    if (all > 0 && one.sum / all >= least) {
      out.push_back({.cause = one.cause, .share = one.sum / all});
    }
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.share > b.share; });
  return out;
}

}  // namespace xpurun::report
