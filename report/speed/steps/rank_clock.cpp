#include "report/speed/steps/rank_clock.h"

#include "common/base/hash.h"
#include "common/base/tr.h"
#include "report/speed/clock/step_clock.h"

#include <algorithm>
#include <functional>

namespace xpurun::report {

namespace {

using model::ClockSource;
using model::Confidence;

constexpr size_t kAtOnce = 64;  // steps

// Work of the GPU in the order of the calls.
std::vector<GpuStart> starts_of(const RankRecord& rank) {
  std::vector<GpuStart> out;
  for (const model::EventFile& file : rank.events) {
    for (const model::EventFile::Entry& entry : file.events) {
      const auto op = file.ops.find(entry.event.op);
      if (op == file.ops.end() ||
          !tells_start(static_cast<wire::OpClass>(op->second.key.op_class),
                       static_cast<wire::Source>(entry.event.source), entry.event.flags)) {
        continue;
      }
      const auto begin = static_cast<int64_t>(entry.event.begin_ns) + rank.offset_ns;
      const uint64_t group =
          entry.communicator < 0 ? 0 : file.communicators[static_cast<size_t>(entry.communicator)].identity;
      out.push_back({.called_ns = begin - int64_t{entry.event.delay_us} * 1000,
                     .begin_ns = begin,
                     .kind = base::hash_words(group, {std::hash<std::string>()(op->second.function)}),
                     .collective = entry.communicator >= 0,
                     .first_of_step = (entry.event.flags & wire::kEventFirstOfStep) != 0});
    }
  }
  std::sort(out.begin(), out.end(),
            [](const GpuStart& a, const GpuStart& b) { return a.called_ns < b.called_ns; });
  return out;
}

int64_t aside_of(const StepRecord& step) {
  return step.stage_ns[static_cast<size_t>(model::Stage::checkpoint)] +
         step.stage_ns[static_cast<size_t>(model::Stage::evaluation)];
}

std::vector<ClockedStep> clocked(const std::vector<StepRecord>& steps, const std::vector<GpuStart>& starts,
                                 bool gpu, std::string& why) {
  StepClock clock;
  if (gpu) {
    clock.uses_gpu();
  }
  std::vector<ClockedStep> out;
  const auto add = [&out](const std::vector<ClockedStep>& some) {
    out.insert(out.end(), some.begin(), some.end());
  };
  auto start = starts.begin();
  for (size_t i = 0; i < steps.size(); ++i) {
    const int64_t begin = steps[i].host_begin_ns;
    const int64_t end = begin + steps[i].host_duration_ns;
    for (; start != starts.end() && start->called_ns < end; ++start) {
      clock.started(*start);
    }
    clock.ended({.begin_ns = begin, .end_ns = end, .aside_ns = aside_of(steps[i])});
    if (i % kAtOnce == kAtOnce - 1) {
      add(clock.take());
    }
  }
  for (; start != starts.end(); ++start) {
    clock.started(*start);
  }
  add(clock.finish());
  why = clock.why();
  return out;
}

}  // namespace

void put_clock(const RankRecord& rank, bool by_host, RankSteps& out) {
  const bool gpu = !rank.gpu.empty();
  std::string why;
  std::vector<ClockedStep> steps;
  if (by_host) {
    steps = clocked(out.steps, gpu ? starts_of(rank) : std::vector<GpuStart>(), gpu, why);
  } else {
    for (const StepRecord& step : out.steps) {
      steps.push_back(
          {.source = ClockSource::gpu, .begin_ns = step.host_begin_ns, .duration_ns = step.host_duration_ns});
    }
  }
  out.steps.resize(std::min(steps.size(), out.steps.size()));
  double together = 0;
  for (size_t i = 0; i < out.steps.size(); ++i) {
    out.steps[i].begin_ns = steps[i].begin_ns;
    out.steps[i].duration_ns = steps[i].duration_ns;
    out.steps[i].work_ns = steps[i].work_ns;
    out.steps[i].lead_ns = steps[i].lead_ns;
    together += static_cast<double>(steps[i].together);
  }
  if (out.steps.empty()) {
    return;
  }
  out.clock_steps = together / static_cast<double>(out.steps.size());
  // What most steps have: the first ones may be known by the host only.
  std::array<size_t, model::kNames<ClockSource>.size()> counts{};
  for (const ClockedStep& step : steps) {
    ++counts[static_cast<size_t>(step.source)];
  }
  out.clock = static_cast<ClockSource>(std::max_element(counts.begin(), counts.end()) - counts.begin());
  if (out.clock == ClockSource::windows) {
    out.confidence = std::min(out.confidence, Confidence::medium);
    out.why += (out.why.empty() ? "" : "; ") + why;
  }
}

}  // namespace xpurun::report
