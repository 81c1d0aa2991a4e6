#include "report/speed/ranks/waits.h"

#include "report/events/job_clocks.h"
#include "report/speed/primitives/statistics.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>

namespace xpurun::report {

namespace {

using model::Stage;

constexpr size_t kLeastForClock = 20;  // ends

constexpr size_t kLeastForLevel = 3;    // steps
constexpr size_t kNear = 16;            // collectives of other communicators in between
constexpr int64_t kAtOnceNs = 100'000;  // from the end of a message to the work that waited for it
constexpr double kMostOverlapped = 0.9;
constexpr double kAtOnce = 0.1;  // of what the last rank does until the next collective

struct Gathering {
  int64_t last_begin = 0;
  int64_t last_end = 0;
  int64_t after_ns = 0;  // until the last rank begins the next collective
  uint32_t ranks = 0;
};
using Gatherings = std::unordered_map<uint64_t, Gathering>;

Gatherings gather(const JobSteps& job) {
  Gatherings out;
  for (size_t r = 0; r < job.ranks(); ++r) {
    for (const Arrival& arrival : job.rank(r).arrivals) {
      Gathering& g = out[arrival.collective];
      g.last_begin = g.ranks == 0 ? arrival.begin_ns : std::max(g.last_begin, arrival.begin_ns);
      g.last_end = g.ranks == 0 ? arrival.end_ns : std::max(g.last_end, arrival.end_ns);
      ++g.ranks;
    }
  }
  return out;
}

// The time from the end of a collective to the begin of the next one of its communicator on the rank;
// negative: unknown.
int64_t until_next(const std::vector<Arrival>& arrivals, size_t index) {
  const Arrival& one = arrivals[index];
  for (size_t i = index + 1; i < std::min(index + kNear, arrivals.size()) && one.next != 0; ++i) {
    if (arrivals[i].collective == one.next) {
      return std::max<int64_t>(arrivals[i].begin_ns - one.end_ns, 0);
    }
  }
  return -1;
}

void see_what_follows(const JobSteps& job, Gatherings& gatherings) {
  for (size_t r = 0; r < job.ranks(); ++r) {
    const std::vector<Arrival>& arrivals = job.rank(r).arrivals;
    for (size_t i = 0; i < arrivals.size(); ++i) {
      Gathering& g = gatherings.at(arrivals[i].collective);
      if (g.ranks > 1 && arrivals[i].begin_ns == g.last_begin) {
        g.after_ns = until_next(arrivals, i);
      }
    }
  }
}

// The GPU's pause before the first work of a step, or before the message that this work waited for. Steps and
// arrivals are in order.
void put_pauses(RankSteps& rank) {
  size_t next = 0;
  int64_t end = std::numeric_limits<int64_t>::min();
  int64_t end_before = end;  // without the latest arrival
  for (StepRecord& step : rank.steps) {
    for (; next < rank.arrivals.size() && rank.arrivals[next].begin_ns < step.work_ns; ++next) {
      end_before = end;
      end = std::max(end, rank.arrivals[next].end_ns);
    }
    int64_t begin = step.work_ns;
    int64_t from = end;
    const Arrival* latest = next > 0 ? &rank.arrivals[next - 1] : nullptr;
    if (begin >= 0 && latest != nullptr && latest->pair && latest->lead_us != Arrival::kUnknownLead &&
        latest->end_ns > begin - kAtOnceNs && latest->end_ns <= begin) {
      begin = latest->begin_ns;
      from = end_before;
      step.lead_ns = int64_t{latest->lead_us} * 1000;
    }
    const bool known = begin >= 0 && from > begin - 2 * step.duration_ns && from <= begin;
    step.pause_ns = known ? begin - from : -1;
  }
}

void shift(std::vector<TimedSample>& samples, int64_t by_ns) {
  for (TimedSample& one : samples) {
    one.at_ns += by_ns;
  }
}

void align_clocks(JobSteps& job) {
  JobClocks clocks(kLeastForClock);
  for (size_t r = 0; r < job.ranks(); ++r) {
    const uint32_t host = clocks.host(job.rank(r).host);
    for (const Arrival& arrival : job.rank(r).arrivals) {
      if (arrival.ends_together) {
        clocks.add(host, arrival.collective, arrival.end_ns);
      }
    }
  }
  clocks.solve();
  for (size_t r = 0; r < job.ranks(); ++r) {
    const int64_t by = clocks.offset_ns(job.rank(r).host);
    for (Arrival& arrival : job.rank(r).arrivals) {
      arrival.begin_ns += by;
      arrival.end_ns += by;
    }
    for (StepRecord& step : job.rank(r).steps) {
      step.begin_ns += by;
      step.work_ns += step.work_ns < 0 ? 0 : by;
    }
    for (auto& [shape, samples] : job.rank(r).shapes) {
      shift(samples, by);
    }
    shift(job.rank(r).launch_delays, by);
    for (Hole& hole : job.rank(r).holes) {
      hole.begin_ns =
          hole.begin_ns == std::numeric_limits<int64_t>::min() ? hole.begin_ns : hole.begin_ns + by;
      hole.end_ns = hole.end_ns == std::numeric_limits<int64_t>::max() ? hole.end_ns : hole.end_ns + by;
    }
  }
}

int64_t stage_of(const StepRecord& step, Stage stage) {
  return step.stage_ns[static_cast<size_t>(stage)];
}

int64_t idle_in(const StepRecord& step, Stage stage) {
  return std::max<int64_t>(stage_of(step, stage) - step.cpu_ns[static_cast<size_t>(stage)], 0);
}

// The time in which the rank may have waited for others, in ns.
int64_t possible_wait(const StepRecord& step, const RankSteps& rank, int64_t least_delay) {
  if (!rank.gpu.empty() || !rank.cpu_known) {
    // A thread that waits for a GPU may use its CPU all the time. Times before the GPU's work are certain.
    return std::max<int64_t>(step.duration_ns - stage_of(step, Stage::data) - stage_of(step, Stage::garbage) -
                                 stage_of(step, Stage::checkpoint) - stage_of(step, Stage::evaluation) -
                                 step.wait_ns,
                             0);
  }
  // After the last rank has arrived, nobody waits for another rank.
  const int64_t transfer = std::min(idle_in(step, Stage::communication), step.transfer_ns);
  const int64_t idle = idle_in(step, Stage::backward) + idle_in(step, Stage::communication) - transfer;
  // A rank that gets no CPU does not wait for others. A rank that spins in its waits lacks the CPU there.
  const int64_t lost = rank.spins ? -1 : lost_cpu_ns(step);
  const int64_t delay =
      lost < 0 ? 0
               : std::max<int64_t>(lost - least_delay - transfer - idle_in(step, Stage::forward) -
                                       idle_in(step, Stage::optimizer),
                                   0);
  return std::max<int64_t>(idle - std::min(delay, idle) - step.wait_ns, 0);
}

// The GPU may wait until after the end of the host's step.
void add_wait(std::vector<StepRecord>& steps, std::vector<StepRecord>::iterator step, int64_t from,
              int64_t to) {
  for (; step != steps.end() && step->begin_ns < to; ++step) {
    step->wait_ns += std::max<int64_t>(
        std::min(to, step->begin_ns + step->duration_ns) - std::max(from, step->begin_ns), 0);
  }
}

// To the step in which the wait ends, and the work after it begins.
void add_overlapped(std::vector<StepRecord>& steps, std::vector<StepRecord>::iterator step, int64_t wait_end,
                    int64_t overlapped_ns) {
  while (step != steps.end() && step->begin_ns + step->duration_ns <= wait_end) {
    ++step;
  }
  if (step != steps.end()) {
    step->overlapped_ns += overlapped_ns;
  }
}

// A rank whose collectives of a step were not all timed hides how long the others waited.
void find_known_steps(JobSteps& job) {
  std::vector<bool> unknown(job.steps(), false);
  for (size_t r = 0; r < job.ranks(); ++r) {
    const std::vector<Hole>& holes = job.rank(r).holes;
    size_t next = 0;
    int64_t covered = std::numeric_limits<int64_t>::min();  // the latest end of the holes before `next`
    for (size_t i = 0; i < job.steps() && !holes.empty(); ++i) {
      const StepRecord* step = job.at(r, i);
      if (step == nullptr) {
        continue;
      }
      while (next < holes.size() && holes[next].begin_ns < step->begin_ns + step->duration_ns) {
        covered = std::max(covered, holes[next++].end_ns);
      }
      unknown[i] = unknown[i] || covered > step->begin_ns;
    }
  }
  for (size_t r = 0; r < job.ranks(); ++r) {
    for (size_t i = 0; i < job.steps(); ++i) {
      if (StepRecord* step = job.at(r, i)) {
        step->waits_known = !unknown[i];
      }
    }
  }
}

// A step that begins with a collective of all ranks begins when the last of them has come: the ranks that
// wait there wait for what made the last rank late, which is part of the step before.
void begin_together(JobSteps& job, const Gatherings& gatherings) {
  for (size_t r = 0; r < job.ranks(); ++r) {
    RankSteps& rank = job.rank(r);
    const auto all_there = [&](int64_t begin_ns) -> std::optional<int64_t> {
      const auto at = std::lower_bound(rank.arrivals.begin(), rank.arrivals.end(), begin_ns,
                                       [](const Arrival& one, int64_t ns) { return one.begin_ns < ns; });
      if (at == rank.arrivals.end() || at->begin_ns != begin_ns || at->pair) {
        return {};
      }
      const Gathering& g = gatherings.at(at->collective);
      return g.ranks == job.ranks() ? std::optional(std::min(g.last_begin, at->end_ns)) : std::nullopt;
    };
    for (StepRecord& step : rank.steps) {
      const int64_t end_ns = step.begin_ns + step.duration_ns;
      const auto end = all_there(end_ns);
      step.end_wait_ns = end ? *end - end_ns : -1;
      step.begin_ns = all_there(step.begin_ns).value_or(step.begin_ns);
      step.duration_ns = std::max<int64_t>(end.value_or(end_ns) - step.begin_ns, 0);
    }
  }
}

// How long the host needs for the step at least if its GPU never holds it, in ns: the time in which no thread
// of the process used a CPU, because PyTorch uses one while it waits for a GPU. 0: nothing is known, such as
// without a GPU, or of JAX, which waits without a CPU.
int64_t host_pace_ns(const RankSteps& rank, const StepRecord& step) {
  const bool spins = rank.source == model::StepSource::optimizer || rank.source == model::StepSource::data;
  if (rank.gpu.empty() || !spins || step.process_ns < 0) {
    return 0;
  }
  // In calls of torch.distributed, a rank may wait for others without a CPU.
  const int64_t calls = step.stage_ns[static_cast<size_t>(model::Stage::communication)];
  const int64_t asleep = step.host_duration_ns - aside_ns(step) - calls - step.process_ns;
  return std::clamp<int64_t>(asleep, 0, working_ns(step));
}

// A GPU that waits for another rank while its own host is not ready loses nothing.
void keep_pace(RankSteps& rank) {
  for (StepRecord& step : rank.steps) {
    const int64_t no_wait = std::max<int64_t>(step.wait_ns + host_pace_ns(rank, step) - working_ns(step), 0);
    step.wait_ns -= no_wait;
    step.overlapped_ns = std::max<int64_t>(step.overlapped_ns - no_wait, 0);
  }
}

}  // namespace

bool measure_waits(JobSteps& job) {
  Gatherings gatherings = gather(job);
  const bool any =
      std::any_of(gatherings.begin(), gatherings.end(), [](const auto& one) { return one.second.ranks > 1; });
  if (any) {
    align_clocks(job);
    gatherings = gather(job);
  }
  begin_together(job, gatherings);
  find_known_steps(job);
  see_what_follows(job, gatherings);
  for (size_t r = 0; r < job.ranks(); ++r) {
    RankSteps& rank = job.rank(r);
    put_pauses(rank);
    auto step = rank.steps.begin();
    int64_t covered = std::numeric_limits<int64_t>::min();
    for (size_t i = 0; i < rank.arrivals.size(); ++i) {
      const Arrival& arrival = rank.arrivals[i];
      const Gathering& g = gatherings.at(arrival.collective);
      while (step != rank.steps.end() && step->begin_ns + step->duration_ns <= arrival.begin_ns) {
        ++step;
      }
      if (step == rank.steps.end()) {
        break;
      }
      if (g.ranks < 2 || arrival.begin_ns < step->begin_ns) {
        continue;
      }
      // Collectives on several streams may wait at the same time.
      const int64_t from = std::max(arrival.begin_ns, covered);
      const int64_t to = std::min(g.last_begin, arrival.end_ns);
      add_wait(rank.steps, step, from, to);
      // A rank that begins the next collective at once has long done what the last rank still has to do.
      const int64_t rest = g.after_ns > 0 && to > from ? until_next(rank.arrivals, i) : -1;
      if (rest >= 0 && static_cast<double>(rest) <= kAtOnce * static_cast<double>(g.after_ns)) {
        add_overlapped(rank.steps, step, to, std::min(to - from, g.after_ns));
      }
      covered = std::max(covered, to);
      if (!arrival.pair) {
        step->transfer_ns += std::max<int64_t>(arrival.end_ns - std::max(g.last_begin, arrival.begin_ns), 0);
      }
    }
    rank.arrivals = {};
    keep_pace(rank);
  }
  return any;
}

bool OwnTimes::level(const std::vector<size_t>& groups, StepWindow before) {
  std::map<size_t, std::vector<double>> means;
  for (size_t r = 0; r < ranks_; ++r) {
    double sum = 0;
    size_t count = 0;
    for (size_t i = before.first; i < before.last; ++i) {
      const auto own = static_cast<double>(step(i)[r]);
      sum += std::max(own, 0.0);
      count += own >= 0 ? 1 : 0;
    }
    if (count >= kLeastForLevel) {
      means[groups[r]].push_back(sum / static_cast<double>(count));
    }
  }
  std::map<size_t, double> levels;
  double most = 0;
  for (auto& [group, of] : means) {
    levels[group] = median(of);
    most = std::max(most, levels[group]);
  }
  if (!std::all_of(groups.begin(), groups.end(), [&](size_t group) { return levels.contains(group); })) {
    return false;
  }
  for (size_t i = 0; i < own_.size(); ++i) {
    own_[i] += own_[i] >= 0 ? static_cast<float>(most - levels[groups[i % ranks_]]) : 0;
  }
  return true;
}

void OwnTimes::pass_over(size_t step) {
  std::fill_n(own_.begin() + static_cast<ptrdiff_t>(step * ranks_), ranks_, -1.0F);
  passed_over_[step] = true;
}

OwnTimes::OwnTimes(const JobSteps& job)
    : ranks_(job.ranks()), own_(job.ranks() * job.steps(), -1), passed_over_(job.steps()) {}

OwnTimes OwnTimes::by_ends(const JobSteps& job) {
  OwnTimes out(job);
  for (size_t i = 0; i < job.steps(); ++i) {
    for (size_t r = 0; r < job.ranks(); ++r) {
      const StepRecord* step = job.at(r, i);
      if (step != nullptr && step->end_wait_ns >= 0) {
        out.own_[i * out.ranks_ + r] =
            static_cast<float>(working_seconds(*step) - static_cast<double>(step->end_wait_ns) * 1e-9);
      }
    }
  }
  return out;
}

OwnTimes OwnTimes::by_arrivals(const JobSteps& job) {
  OwnTimes out(job);
  for (size_t i = 0; i < job.steps(); ++i) {
    for (size_t r = 0; r < job.ranks(); ++r) {
      if (const StepRecord* step = job.at(r, i); step != nullptr && step->waits_known) {
        out.own_[i * out.ranks_ + r] = static_cast<float>(
            std::max(working_seconds(*step) - static_cast<double>(step->wait_ns) * 1e-9, 0.0));
      }
    }
  }
  return out;
}

OwnTimes OwnTimes::of_stage(const JobSteps& job, Stage stage) {
  OwnTimes out(job);
  for (size_t i = 0; i < job.steps(); ++i) {
    for (size_t r = 0; r < job.ranks(); ++r) {
      if (const StepRecord* step = job.at(r, i)) {
        out.own_[i * out.ranks_ + r] = static_cast<float>(static_cast<double>(stage_of(*step, stage)) * 1e-9);
      }
    }
  }
  return out;
}

OwnTimes::OwnTimes(const JobSteps& job, bool measured) : OwnTimes(job) {
  std::vector<int64_t> possible(ranks_);
  for (size_t i = 0; i < job.steps(); ++i) {
    int64_t least_delay = std::numeric_limits<int64_t>::max();
    for (size_t r = 0; r < ranks_; ++r) {
      if (const StepRecord* step = job.at(r, i); step != nullptr && lost_cpu_ns(*step) >= 0) {
        least_delay = std::min(least_delay, lost_cpu_ns(*step));
      }
    }
    int64_t least = std::numeric_limits<int64_t>::max();
    for (size_t r = 0; r < ranks_; ++r) {
      if (const StepRecord* step = job.at(r, i)) {
        possible[r] = possible_wait(*step, job.rank(r), least_delay);
        least = std::min(least, possible[r]);
      }
    }
    for (size_t r = 0; r < ranks_; ++r) {
      const StepRecord* step = job.at(r, i);
      if (step == nullptr || (measured && !step->waits_known)) {
        continue;
      }
      // Measured waits are all there are, unless a CPU shows that the rank also waited inside other calls.
      const bool hidden = !measured || (job.rank(r).cpu_known && job.rank(r).gpu.empty());
      const int64_t wait = job.synchronous() ? step->wait_ns + (hidden ? possible[r] - least : 0) : 0;
      own_[i * ranks_ + r] =
          static_cast<float>(std::max(working_seconds(*step) - static_cast<double>(wait) * 1e-9, 0.0));
    }
    if (measured && job.synchronous()) {
      add_overlapped(job, i);
    }
  }
}

// What the last rank does in `overlapped_ns`, another rank does faster, by the factor of their own times,
// which is what is looked for: own = known + overlapped * own / most.
void OwnTimes::add_overlapped(const JobSteps& job, size_t step) {
  const auto row = std::span(own_).subspan(step * ranks_, ranks_);
  const auto most = static_cast<double>(*std::max_element(row.begin(), row.end()));
  for (size_t r = 0; r < ranks_; ++r) {
    const StepRecord* record = job.at(r, step);
    if (record == nullptr || row[r] < 0 || record->overlapped_ns <= 0 || most <= 0) {
      continue;
    }
    const double part = std::min(static_cast<double>(record->overlapped_ns) * 1e-9 / most, kMostOverlapped);
    row[r] = static_cast<float>(std::min(static_cast<double>(row[r]) / (1 - part), most));
  }
}

}  // namespace xpurun::report
