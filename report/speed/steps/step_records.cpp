#include "report/speed/steps/step_records.h"

#include "common/base/hash.h"
#include "report/events/op_facts.h"
#include "report/speed/steps/communication.h"
#include "report/speed/steps/rank_clock.h"
#include "report/speed/steps/rank_events.h"
#include "report/speed/steps/rank_spans.h"
#include "report/speed/steps/step_ends.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace xpurun::report {

namespace {

using model::Span;
using model::Stage;

constexpr size_t kMostPlaces = 4096;  // different places of one stage

int64_t host_end(const StepRecord& step) {
  return step.host_begin_ns + step.host_duration_ns;
}

// Divides the time of a thread between the steps and, inside them, between the stages.
class Divider {
 public:
  explicit Divider(std::vector<StepRecord>& steps) : steps_(steps) {}

  void open(const Span& span) {
    close_until(span.begin_ns);
    Stage stage = span.stage;
    if (!open_.empty()) {
      const Stage outer = open_.back().stage;
      const bool whole = outer == Stage::evaluation || outer == Stage::checkpoint;
      stage = whole || stage == Stage::function || stage == Stage::mark ? outer : stage;
    } else if (stage == Stage::function || stage == Stage::mark) {
      stage = Stage::other;
    }
    open_.push_back({&span, stage, 0});
  }

  void close_until(int64_t time) {
    while (!open_.empty() && end_of(*open_.back().span) <= time) {
      const Open top = open_.back();
      open_.pop_back();
      spend(top.stage, end_of(*top.span));
      if (top.span->cpu_ns >= 0) {
        add_cpu(*top.span, top.stage, std::max<int64_t>(top.span->cpu_ns - top.inner_cpu_ns, 0));
        if (!open_.empty()) {
          open_.back().inner_cpu_ns += top.span->cpu_ns;
        }
      }
    }
    spend(open_.empty() ? Stage::other : open_.back().stage, time);
  }

  void finish() {
    if (!steps_.empty()) {
      close_until(host_end(steps_.back()));
    }
  }

 private:
  struct Open {
    const Span* span;
    Stage stage;
    int64_t inner_cpu_ns;  // of the spans inside
  };

  // The time since the last call belongs to `stage`.
  void spend(Stage stage, int64_t time) {
    while (now_ < time && at_ < steps_.size()) {
      StepRecord& step = steps_[at_];
      const int64_t end = host_end(step);
      if (now_ < step.host_begin_ns) {
        now_ = std::min(time, step.host_begin_ns);
        continue;
      }
      const int64_t to = std::min(time, std::max(end, now_));
      step.stage_ns[static_cast<size_t>(stage)] += to - now_;
      now_ = to;
      at_ += to >= end ? 1 : 0;
    }
  }

  // A span that lies in several steps gives each its share.
  void add_cpu(const Span& span, Stage stage, int64_t cpu_ns) {
    for (size_t i = std::min(at_ + 1, steps_.size()); i-- > 0;) {
      if (!add_cpu_to(steps_[i], span, stage, cpu_ns) && i < at_) {
        break;
      }
    }
  }
  static bool add_cpu_to(StepRecord& step, const Span& span, Stage stage, int64_t cpu_ns) {
    const int64_t from = std::max(span.begin_ns, step.host_begin_ns);
    const int64_t to = std::min(end_of(span), host_end(step));
    if (to <= from) {
      return false;
    }
    step.cpu_ns[static_cast<size_t>(stage)] += static_cast<int64_t>(
        static_cast<double>(cpu_ns) * static_cast<double>(to - from) / static_cast<double>(span.duration_ns));
    return true;
  }

  std::vector<StepRecord>& steps_;
  std::vector<Open> open_;
  int64_t now_ = 0;
  size_t at_ = 0;
};

double share_of(int64_t at, const model::LoadSample& a, const model::LoadSample& b) {
  return b.at_ns > a.at_ns ? static_cast<double>(at - a.at_ns) / static_cast<double>(b.at_ns - a.at_ns) : 0;
}

// By how much a total grows in a step, if it is known all the time.
class Growth {
 public:
  explicit Growth(int64_t model::LoadSample::*total) : total_(total) {}

  // `part` of the time between two samples.
  void add(const model::LoadSample& a, const model::LoadSample& b, double part) {
    sum_ += part * static_cast<double>(b.*total_ - a.*total_);
    known_ = known_ && a.*total_ >= 0 && b.*total_ >= a.*total_;
  }
  int64_t ns(double factor) const { return known_ ? static_cast<int64_t>(sum_ * factor) : -1; }

 private:
  int64_t model::LoadSample::*total_;
  double sum_ = 0;
  bool known_ = true;
};

// The hypervisor takes nothing from a thread that sleeps. `taken_ns`: what it would have taken from a thread
// that never sleeps.
int64_t taken_while_running(int64_t taken_ns, int64_t cpu_ns, int64_t duration_ns) {
  if (taken_ns <= 0 || taken_ns >= duration_ns) {
    return taken_ns;
  }
  const double share = static_cast<double>(taken_ns) / static_cast<double>(duration_ns - taken_ns);
  return std::min(taken_ns, static_cast<int64_t>(share * static_cast<double>(cpu_ns)));
}

// The totals grow evenly between two samples. Totals that fall belong to a new process.
void add_loads(const std::vector<model::LoadSample>& loads, std::vector<StepRecord>& steps) {
  size_t at = 0;
  for (StepRecord& step : steps) {
    const int64_t end = host_end(step);
    while (at + 1 < loads.size() && loads[at + 1].at_ns <= step.host_begin_ns) {
      ++at;
    }
    double cpu = 0;
    Growth delay(&model::LoadSample::run_delay_ns);
    Growth throttled(&model::LoadSample::throttled_ns);
    Growth stolen(&model::LoadSample::stolen_ns);
    int64_t covered = 0;
    for (size_t i = at; i + 1 < loads.size() && loads[i].at_ns < end; ++i) {
      const model::LoadSample& a = loads[i];
      const model::LoadSample& b = loads[i + 1];
      const int64_t from = std::max(step.host_begin_ns, a.at_ns);
      const int64_t to = std::min(end, b.at_ns);
      if (to <= from || b.cpu_ns < a.cpu_ns) {
        continue;
      }
      const double part = share_of(to, a, b) - share_of(from, a, b);
      covered += to - from;
      cpu += part * static_cast<double>(b.cpu_ns - a.cpu_ns);
      for (Growth* one : {&delay, &throttled, &stolen}) {
        one->add(a, b, part);
      }
      step.faults += part * static_cast<double>(std::max<int64_t>(b.major_faults - a.major_faults, 0));
    }
    if (2 * covered >= step.host_duration_ns && covered > 0) {
      const double whole = static_cast<double>(step.host_duration_ns) / static_cast<double>(covered);
      step.process_ns = static_cast<int64_t>(cpu * whole);
      step.run_delay_ns = delay.ns(whole);
      step.throttled_ns = throttled.ns(whole);
      step.stolen_ns = taken_while_running(stolen.ns(whole), step.process_ns, step.host_duration_ns);
    }
  }
}

// Spans are in the order of their begin. Of MPI's calls, some are timed.
void count_calls(const RankSpans& all, uint32_t thread, std::vector<StepRecord>& steps) {
  auto step = steps.begin();
  int64_t until = std::numeric_limits<int64_t>::min();
  for (const Span& span : all.spans) {
    if (span.thread != thread || span.stage != Stage::communication || span.begin_ns < until ||
        model::is_mpi_call(all.names[span.name])) {
      continue;
    }
    until = end_of(span);
    while (step != steps.end() && host_end(*step) <= span.begin_ns) {
      ++step;
    }
    if (step != steps.end() && step->host_begin_ns <= span.begin_ns) {
      ++step->calls;
    }
  }
}

void find_places(const RankSpans& all, uint32_t thread, RankSteps& out) {
  std::array<std::unordered_map<uint64_t, int64_t>, model::kStepStages> times;
  for (const Span& span : all.spans) {
    const auto stage = static_cast<size_t>(span.stage);
    if (span.thread == thread && stage < model::kStepStages && (span.name != 0 || span.place != 0) &&
        times[stage].size() < kMostPlaces) {
      // What is inferred has a place, and is no call that a name could say.
      times[stage][uint64_t{span.place} << 32 | (span.inferred ? 0 : span.name)] += span.duration_ns;
    }
  }
  for (size_t i = 0; i < times.size(); ++i) {
    const auto most = std::max_element(times[i].begin(), times[i].end(), [](const auto& a, const auto& b) {
      return a.second != b.second ? a.second < b.second : a.first > b.first;
    });
    if (most != times[i].end()) {
      out.places[i] = all.names[most->first >> 32];
      out.names[i] = all.names[most->first & 0xffffffff];
    }
  }
}

// A call of a GPU's group returns before it is done: a send or recv says nothing of waits, a collective
// nothing of clocks.
std::vector<Arrival> arrivals_of(const RankSpans& all, bool gpu, std::map<uint64_t, Traffic>& traffic) {
  std::vector<Arrival> out;
  for (const Span& span : all.spans) {
    if (span.stage != Stage::communication || span.group == 0 || span.sequence == 0) {
      continue;
    }
    const std::string& group = all.names[span.group];
    const bool pair = model::is_pair_group(group);
    if (!pair || !gpu) {
      out.push_back({.collective = meeting_of(group, span.sequence),
                     .begin_ns = span.begin_ns,
                     .end_ns = end_of(span),
                     .pair = pair,
                     .ends_together = !pair && !gpu});
      Traffic& t = traffic[base::hash_text(group)];
      t.message = pair;
      t.sends = pair && all.names[span.name].find("send") != std::string::npos;
      t.add(span.sequence, static_cast<double>(span.bytes));
    }
  }
  return out;
}

}  // namespace

void Traffic::add(uint64_t number, double bytes_of_call) {
  first = timed == 0 ? number : std::min(first, number);
  last = std::max(last, number);
  bytes += std::max(bytes_of_call, 1.0);
  ++timed;
}

double Traffic::total_bytes() const {
  return timed == 0 ? 0 : bytes / static_cast<double>(timed) * static_cast<double>(last - first + 1);
}

int64_t lost_cpu_ns(const StepRecord& step) {
  const int64_t waiting = std::max(step.run_delay_ns, step.throttled_ns);
  return waiting < 0 && step.stolen_ns < 0
             ? -1
             : std::max<int64_t>(waiting, 0) + std::max<int64_t>(step.stolen_ns, 0);
}

RankSteps steps_of(const RankRecord& rank, size_t most_arrivals) {
  const RankSpans all = join_spans(rank);
  const StepEnds ends = find_step_ends(all, rank);
  RankSteps out{.rank = rank.rank,
                .host = rank.host,
                .gpu = rank.gpu,
                .source = ends.source,
                .confidence = ends.confidence,
                .why = ends.why};
  add_events(rank, ends.boundaries.size(), out);
  if (out.arrivals.empty()) {
    out.arrivals = arrivals_of(all, !rank.gpu.empty(), out.traffic);
  }
  if (out.arrivals.size() > most_arrivals) {
    out.arrivals.erase(out.arrivals.begin(), out.arrivals.end() - static_cast<std::ptrdiff_t>(most_arrivals));
    out.holes.insert(out.holes.begin(), {.begin_ns = std::numeric_limits<int64_t>::min(),
                                         .end_ns = out.arrivals.empty() ? 0 : out.arrivals.front().begin_ns});
  }
  if (ends.source == model::StepSource::none) {
    return out;
  }
  for (size_t i = 0; i + 1 < ends.boundaries.size(); ++i) {
    out.steps.push_back({.host_begin_ns = ends.boundaries[i],
                         .host_duration_ns = ends.boundaries[i + 1] - ends.boundaries[i]});
  }
  Divider divider(out.steps);
  bool any = false;
  for (const Span& span : all.spans) {
    if (span.thread == ends.thread && ends.thread != 0) {
      divider.open(span);
      out.cpu_known = out.cpu_known || (span.cpu_ns >= 0 && span.stage != Stage::mark);
      out.spins =
          out.spins || (span.stage == Stage::communication && model::is_mpi_call(all.names[span.name]));
      any = true;
    }
  }
  if (any) {
    divider.finish();
    count_calls(all, ends.thread, out.steps);
    find_places(all, ends.thread, out);
  }
  add_loads(all.loads, out.steps);
  put_clock(rank, ends.thread != 0, out);
  add_communication(rank, all, ends.thread, out);
  return out;
}

}  // namespace xpurun::report
