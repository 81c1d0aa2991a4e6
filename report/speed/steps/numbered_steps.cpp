#include "report/speed/steps/numbered_steps.h"

#include "common/base/hash.h"
#include "common/base/tr.h"
#include "common/wire/segment.h"
#include "report/speed/steps/token_period.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace xpurun::report {

namespace {

using model::Confidence;
using model::StepSource;

constexpr double kOneGraph = 0.9;  // of the time of all replays

struct NumberedCall {
  uint64_t number = 0;
  SequenceCall call;
};
// By what numbers them together, in order.
using NumberedCalls = std::map<uint64_t, std::vector<NumberedCall>>;

NumberedCalls calls_of(const RankRecord& rank, wire::OpClass wanted) {
  NumberedCalls out;
  for (const model::EventFile& file : rank.events) {
    for (const model::EventFile::Entry& entry : file.events) {
      const auto op = file.ops.find(entry.event.op);
      if (op == file.ops.end() || op->second.key.op_class != static_cast<uint8_t>(wanted)) {
        continue;
      }
      // The launches of a graph before and after the first capture of a collective are numbered apart.
      const uint64_t apart = op->second.key.flags & wire::kOpMeets;
      const uint64_t kind = static_cast<uint64_t>(op->second.key.k) ^ (apart << 48);
      const uint64_t together = entry.communicator < 0
                                    ? kind
                                    : file.communicators[static_cast<size_t>(entry.communicator)].identity;
      const auto begin = static_cast<int64_t>(entry.event.begin_ns) + rank.offset_ns;
      out[together].push_back(
          {entry.event.sequence,
           {begin, begin + static_cast<int64_t>(entry.event.duration_ns),
            base::hash_words(op->second.work, {kind, std::hash<std::string>()(op->second.function)})}});
    }
  }
  for (auto& [together, calls] : out) {
    std::stable_sort(calls.begin(), calls.end(),
                     [](const NumberedCall& a, const NumberedCall& b) { return a.number < b.number; });
    calls.erase(
        std::unique(calls.begin(), calls.end(),
                    [](const NumberedCall& a, const NumberedCall& b) { return a.number == b.number; }),
        calls.end());
  }
  return out;
}

uint64_t count_of(const std::vector<NumberedCall>& calls) {
  return calls.back().number - calls.front().number + 1;
}

// The longest run of calls without a gap in their numbers.
std::span<const NumberedCall> longest_run(const std::vector<NumberedCall>& calls) {
  std::span<const NumberedCall> best;
  for (size_t first = 0; first < calls.size();) {
    size_t last = first + 1;
    while (last < calls.size() && calls[last].number == calls[last - 1].number + 1) {
      ++last;
    }
    if (last - first > best.size()) {
      best = std::span(calls).subspan(first, last - first);
    }
    first = last;
  }
  return best;
}

// The times of the calls with these numbers: `first`, and every `period` from there on.
std::vector<int64_t> times_of(const std::vector<NumberedCall>& calls, uint64_t first, uint64_t period,
                              int64_t SequenceCall::*when) {
  std::vector<int64_t> out;
  auto next = calls.begin();
  for (uint64_t number = first; number <= calls.back().number; number += period) {
    while (next->number < number) {
      ++next;
    }
    if (next->number == number || next == calls.begin()) {
      out.push_back(next->call.*when);
      continue;
    }
    const NumberedCall& before = *(next - 1);
    const double part =
        static_cast<double>(number - before.number) / static_cast<double>(next->number - before.number);
    out.push_back(before.call.*when +
                  static_cast<int64_t>(part * static_cast<double>(next->call.*when - before.call.*when)));
  }
  return out;
}

}  // namespace

StepEnds from_collectives(const RankRecord& rank) {
  StepEnds out;
  out.why = base::later("neither an optimizer, a data loader nor collectives were seen");
  uint64_t most = 0;  // collectives of a communicator that shows steps
  for (const auto& [communicator, calls] : calls_of(rank, wire::OpClass::collective)) {
    std::vector<SequenceCall> run;
    const auto longest = longest_run(calls);
    for (const NumberedCall& one : longest) {
      run.push_back(one.call);
    }
    const CallCycle cycle = find_cycle(run, 2);
    if (cycle.period.length < 2 || cycle.rare_calls || count_of(calls) <= most) {
      out.why = most > 0 ? out.why
                : cycle.period.length == 1
                    ? base::later("no optimizer was seen, and all collectives are equal")
                    : base::later("no optimizer was seen, and the sequence of collectives does not repeat");
      continue;
    }
    const uint64_t period = cycle.period.length;
    const uint64_t first = calls.front().number;
    const uint64_t phase = (longest.front().number + cycle.phase - first) % period;
    std::vector<int64_t> ends = times_of(calls, first + phase, period, &SequenceCall::end_ns);
    if (ends.size() <= kLeastSteps) {
      out.why = base::later("the sequence of collectives repeats too few times");
      continue;
    }
    most = count_of(calls);
    out = {.source = StepSource::collectives,
           .confidence = Confidence::medium,
           .why = repeating_words(cycle.period),
           .boundaries = std::move(ends)};
  }
  return out;
}

StepEnds from_replays(const RankRecord& rank) {
  const NumberedCalls graphs = calls_of(rank, wire::OpClass::graph);
  double all_s = 0;
  double most_s = 0;
  const std::vector<NumberedCall>* most = nullptr;
  for (const auto& [graph, calls] : graphs) {
    double timed_s = 0;
    for (const NumberedCall& one : calls) {
      timed_s += static_cast<double>(one.call.end_ns - one.call.begin_ns) * 1e-9;
    }
    const double graph_s = timed_s / static_cast<double>(calls.size()) * static_cast<double>(count_of(calls));
    all_s += graph_s;
    if (most == nullptr || graph_s > most_s) {
      most_s = graph_s;
      most = &calls;
    }
  }
  if (most == nullptr || count_of(*most) <= kLeastSteps) {
    return {};
  }
  const bool alone = most_s >= kOneGraph * all_s;
  StepEnds out{.source = StepSource::replays, .confidence = alone ? Confidence::medium : Confidence::low};
  out.why = alone ? base::later("no optimizer was seen; a step may replay the CUDA graph several times")
                  : base::later("no optimizer was seen, and several CUDA graphs are replayed");
  out.boundaries = times_of(*most, most->front().number, 1, &SequenceCall::begin_ns);
  return out;
}

}  // namespace xpurun::report
