#include "report/speed/steps/step_ends.h"

#include "common/base/hash.h"
#include "common/base/tr.h"
#include "report/speed/primitives/statistics.h"
#include "report/speed/steps/numbered_steps.h"
#include "report/speed/steps/token_period.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

namespace xpurun::report {

namespace {

using model::Confidence;
using model::Span;
using model::Stage;
using model::StepSource;

constexpr double kAlwaysSame = 0.95;
constexpr size_t kMostCycle = 64;  // optimizer calls in one step
constexpr size_t kWithoutPass = 16;

uint64_t mix(uint64_t a, uint64_t b) {
  return base::hash_words(a, {b});
}

// Spans of one thread that are no part of another span of the same stage, of an evaluation or a checkpoint.
std::vector<const Span*> outermost(const RankSpans& all, uint32_t thread) {
  std::vector<const Span*> out;
  std::vector<const Span*> open;
  for (const Span& span : all.spans) {
    if (span.thread != thread) {
      continue;
    }
    while (!open.empty() && end_of(*open.back()) <= span.begin_ns) {
      open.pop_back();
    }
    const bool inner = std::any_of(open.begin(), open.end(), [&span](const Span* outer) {
      return outer->stage == span.stage || outer->stage == Stage::evaluation ||
             outer->stage == Stage::checkpoint;
    });
    if (!inner) {
      out.push_back(&span);
    }
    if (span.duration_ns > 0) {
      open.push_back(&span);
    }
  }
  return out;
}

// The thread with most spans of a stage; false if there is none.
bool thread_of(const RankSpans& all, Stage stage, uint32_t& thread) {
  std::map<uint32_t, size_t> counts;
  for (const Span& span : all.spans) {
    counts[span.thread] += span.stage == stage ? 1 : 0;
  }
  const auto most = std::max_element(counts.begin(), counts.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == counts.end() || most->second == 0) {
    return false;
  }
  thread = most->first;
  return true;
}

// The share of steps that consist of the most frequent sequence of stages.
double regularity(const std::vector<const Span*>& spans, const std::vector<int64_t>& boundaries) {
  std::map<uint64_t, size_t> shapes;
  size_t at = 0;
  size_t most = 0;
  for (size_t i = 0; i + 1 < boundaries.size(); ++i) {
    uint64_t shape = 0;
    Stage before = Stage::mark;
    for (; at < spans.size() && spans[at]->begin_ns < boundaries[i + 1]; ++at) {
      const Stage stage = spans[at]->stage;
      const bool tells = stage == Stage::data || stage == Stage::forward || stage == Stage::backward ||
                         stage == Stage::optimizer;
      if (spans[at]->begin_ns >= boundaries[i] && tells && stage != before) {
        shape = mix(shape, static_cast<uint64_t>(stage) + 1);
        before = stage;
      }
    }
    most = std::max(most, ++shapes[shape]);
  }
  const size_t steps = boundaries.size() - 1;
  return steps > 0 ? static_cast<double>(most) / static_cast<double>(steps) : 0;
}

StepEnds from_marks(const RankSpans& all) {
  StepEnds out;
  if (!thread_of(all, Stage::mark, out.thread)) {
    return out;
  }
  for (const Span& span : all.spans) {
    if (span.stage == Stage::mark && span.thread == out.thread) {
      out.boundaries.push_back(end_of(span));
    }
  }
  if (out.boundaries.size() > kLeastSteps) {
    out.source = StepSource::mark;
    out.confidence = Confidence::high;
  }
  return out;
}

// The passes of most steps have no spans: they are replays of a CUDA graph.
bool mostly_without_passes(const std::vector<const Span*>& spans) {
  size_t calls = 0;
  size_t run = 0;  // without a pass
  size_t longest = 0;
  for (const Span* span : spans) {
    const bool pass = span->stage == Stage::backward || span->stage == Stage::forward;
    const bool optimizer = span->stage == Stage::optimizer;
    calls += optimizer ? 1 : 0;
    run = pass ? 0 : run + (optimizer ? 1 : 0);
    longest = std::max(longest, run);
  }
  return longest > kWithoutPass && 2 * longest > calls;
}

// Calls of optimizers with no forward and backward pass in between are one group: several optimizers, or one
// for each part of the parameters. Groups that alternate (a generator's and a discriminator's) make one step
// together.
StepEnds from_optimizers(const RankSpans& all) {
  StepEnds out;
  if (!thread_of(all, Stage::optimizer, out.thread)) {
    return out;
  }
  const std::vector<const Span*> spans = outermost(all, out.thread);
  std::vector<int64_t> ends;
  std::vector<uint64_t> tokens;
  bool open = false;
  const bool each = mostly_without_passes(spans);
  for (const Span* span : spans) {
    if (span->stage == Stage::backward || span->stage == Stage::forward) {
      open = false;
    } else if (span->stage == Stage::optimizer) {
      if (!open || each) {
        ends.push_back(0);
        tokens.push_back(0);
      }
      open = true;
      ends.back() = end_of(*span);
      tokens.back() = mix(tokens.back(), mix(std::hash<std::string>()(all.names[span->name]),
                                             std::hash<std::string>()(all.names[span->place])));
    }
  }
  const TokenPeriod period = find_period(tokens);
  const size_t cycle = period.length >= 1 && period.length <= kMostCycle ? period.length : 1;
  // The cycle ends where the longest time passes before the next group: there the next batch is loaded.
  size_t phase = cycle - 1;
  if (cycle > 1) {
    std::vector<std::vector<double>> gaps(cycle);
    for (size_t i = 0; i + 1 < ends.size(); ++i) {
      int64_t data = 0;
      for (auto it = std::lower_bound(spans.begin(), spans.end(), ends[i],
                                      [](const Span*s, int64_t t) { return s->begin_ns < t; });
           it != spans.end() && (*it)->begin_ns < ends[i + 1]; ++it) {
        data += (*it)->stage == Stage::data ? std::max<int64_t>((*it)->duration_ns, 1) : 0;
      }
      gaps[i % cycle].push_back(static_cast<double>(data));
    }
    double longest = 0;
    for (size_t i = 0; i < cycle; ++i) {
      if (const double gap = median(gaps[i]); gap > longest) {
        longest = gap;
        phase = i;
      }
    }
  }
  for (size_t i = phase; i < ends.size(); i += cycle) {
    out.boundaries.push_back(ends[i]);
  }
  if (out.boundaries.size() <= kLeastSteps) {
    return out;
  }
  out.source = StepSource::optimizer;
  const bool mixed = tokens.size() > kLeastSteps && period.length == 0;
  const double same = regularity(spans, out.boundaries);
  out.confidence = mixed || same < kSameStages ? Confidence::low
                   : same < kAlwaysSame        ? Confidence::medium
                                               : Confidence::high;
  out.why = mixed ? "the calls of the optimizers do not repeat in one order"
            : out.confidence != Confidence::high
                ? fmt::format("{:.0f} % of the steps consist of the same stages", 100 * same)
                : "";
  return out;
}

StepEnds from_data(const RankSpans& all) {
  StepEnds out;
  if (!thread_of(all, Stage::data, out.thread)) {
    return out;
  }
  const std::vector<const Span*> spans = outermost(all, out.thread);
  // A program with several loaders waits for the one of the training most often.
  std::map<std::pair<uint32_t, uint32_t>, size_t> counts;
  for (const Span* span : spans) {
    if (span->stage == Stage::data) {
      ++counts[{span->name, span->place}];
    }
  }
  const auto most = std::max_element(counts.begin(), counts.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  for (const Span* span : spans) {
    if (span->stage == Stage::data && std::pair(span->name, span->place) == most->first) {
      out.boundaries.push_back(span->begin_ns);
    }
  }
  if (out.boundaries.size() <= kLeastSteps) {
    return out;
  }
  const double same = regularity(spans, out.boundaries);
  if (same < kSameStages) {
    out.why =
        fmt::format("only {:.0f} % of the intervals between batches consist of the same stages", 100 * same);
    return out;
  }
  out.source = StepSource::data;
  out.confidence = Confidence::medium;
  out.why = "no optimizer was seen; several batches may make one step";
  return out;
}

// `least`: of calls in a step.
StepEnds from_calls(std::vector<SequenceCall> calls, uint32_t thread, size_t least = 2) {
  StepEnds out{.thread = thread};
  std::sort(calls.begin(), calls.end(),
            [](const SequenceCall& a, const SequenceCall& b) { return a.begin_ns < b.begin_ns; });
  const CallCycle cycle = find_cycle(calls, least);
  const TokenPeriod& period = cycle.period;
  if (period.length < least) {
    out.why = calls.empty() ? base::later("neither an optimizer, a data loader nor collectives were seen")
              : period.length == 1
                  ? base::later("no optimizer was seen, and all collectives are equal")
                  : base::later("no optimizer was seen, and the sequence of collectives does not repeat");
    return out;
  }
  CyclePosition position(cycle.tokens);
  for (const SequenceCall& call : calls) {
    if (position.take(call.token) == period.length - 1) {
      out.boundaries.push_back(call.end_ns);
    }
  }
  if (out.boundaries.size() <= kLeastSteps) {
    out.why = base::later("the sequence of collectives repeats too few times");
    return out;
  }
  out.source = StepSource::collectives;
  out.confidence = Confidence::medium;
  out.why = repeating_words(period);
  return out;
}

bool has_places(const RankSpans& all, uint32_t thread) {
  return std::all_of(all.spans.begin(), all.spans.end(), [thread](const Span& span) {
    return span.stage != Stage::communication || span.thread != thread || span.group == 0 || span.place != 0;
  });
}

enum class WantedCalls { all, mpi_collectives };
std::vector<SequenceCall> called(const RankSpans& all, uint32_t thread, WantedCalls wanted) {
  std::vector<SequenceCall> out;
  for (const Span& span : all.spans) {
    // Without a group: a wait for calls that have returned.
    if (span.stage == Stage::communication && span.thread == thread && span.group != 0 &&
        (wanted == WantedCalls::all ||
         model::is_mpi_collective(all.names[span.name], all.names[span.group]))) {
      const auto hash = [&all](uint32_t name) { return std::hash<std::string>()(all.names[name]); };
      out.push_back({span.begin_ns, end_of(span),
                     mix(mix(hash(span.name), hash(span.place)), mix(hash(span.group), span.bytes))});
    }
  }
  return out;
}

}  // namespace

StepEnds find_step_ends(const RankSpans& spans, const RankRecord& rank) {
  std::string why;
  for (const auto find : {from_marks, from_optimizers, from_data}) {
    StepEnds found = find(spans);
    if (found.source != StepSource::none) {
      // A program that records its whole step as a graph makes some steps before.
      StepEnds replays = from_replays(rank);
      const bool before = replays.boundaries.size() > 2 * found.boundaries.size() &&
                          found.boundaries.back() <= replays.boundaries.front();
      return before ? replays : found;
    }
    why = found.why.empty() ? why : found.why;
  }
  uint32_t thread = 0;
  const bool any = thread_of(spans, Stage::communication, thread);
  // All ranks call the collectives of MPI alike; messages only in regular programs. Where the place of the
  // call is known, one collective that repeats is a step.
  StepEnds found = from_calls(called(spans, thread, WantedCalls::mpi_collectives), thread, 1);
  if (found.source == StepSource::none) {
    const size_t least = has_places(spans, thread) ? 1 : 2;
    found = any ? from_calls(called(spans, thread, WantedCalls::all), thread, least) : from_collectives(rank);
  }
  if (StepEnds replays = found.source == StepSource::none ? from_replays(rank) : StepEnds{};
      replays.source != StepSource::none) {
    return replays;
  }
  if (found.source == StepSource::none && !why.empty()) {
    found.why = why;
  }
  return found;
}

}  // namespace xpurun::report
