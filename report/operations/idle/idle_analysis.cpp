#include "report/operations/idle/idle_analysis.h"

#include "common/base/strings.h"
#include "report/gpu_work/idle_gaps.h"
#include "report/gpu_work/queue_length.h"
#include "report/operations/rank_operations.h"
#include "report/speed/steps/rank_spans.h"
#include "report/speed/steps/step_ends.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <tuple>

namespace xpurun::report {

namespace {

constexpr size_t kGapsOfARank = 10;
constexpr size_t kMostGaps = 200;

double seconds_of(int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

int64_t end_of(const RecordedWork& work, bool open_end) {
  int64_t last = work.works.front().end;
  for (const GpuWork& w : work.works) {
    last = std::max(last, w.end);
  }
  const int64_t whole = last - work.works.front().begin;
  return last - (open_end ? uncertain_end_ns(whole) : 0);
}

// The innermost span around a moment: the one that began last.
std::string span_at(const RankRecord& rank, int64_t at) {
  const model::Span* best = nullptr;
  const model::SpanFile* of = nullptr;
  for (const auto* files : {&rank.spans, &rank.functions}) {
    for (const model::SpanFile& file : *files) {
      for (const model::Span& span : file.spans) {
        if (span.begin_ns <= at && at < span.begin_ns + span.duration_ns &&
            (best == nullptr || span.begin_ns > best->begin_ns)) {
          best = &span;
          of = &file;
        }
      }
    }
  }
  if (best == nullptr) {
    return "";
  }
  const auto text = [of](uint32_t index) {
    return base::sanitize(of->names[index < of->names.size() ? index : 0]);
  };
  const std::string name = best->name == 0 ? std::string(model::name_of(best->stage)) : text(best->name);
  return best->place == 0 ? name : fmt::format("{}, {}", name, text(best->place));
}

// By the clock of the record. Steps that GPU events tell are those of the GPU, not of the host.
std::vector<int64_t> step_ends_of(const RankRecord& rank) {
  StepEnds ends = find_step_ends(join_spans(rank), {.rank = rank.rank});
  if (ends.source == model::StepSource::none) {
    return {};
  }
  for (int64_t& one : ends.boundaries) {
    one -= rank.offset_ns;
  }
  return std::move(ends.boundaries);
}

std::string call_at(const RecordedWork& work, int64_t at) {
  const HostCall* best = nullptr;
  for (const HostCall& call : work.calls) {
    if (call.begin > at) {
      break;
    }
    best = at < call.end ? &call : best;
  }
  return best == nullptr ? "" : work.names[best->name];
}

}  // namespace

IdleAnalysis::IdleAnalysis(std::string dir, int64_t wall_ns) {
  out_.dir = std::move(dir);
  out_.wall_ns = wall_ns;
}

void IdleAnalysis::add(model::EventFile file, const RankRecord& rank, bool open_end) {
  const RecordedWork work = recorded_work(file);
  out_.source = work.cupti ? "CUPTI" : "timed calls";
  if (!work.problem.empty()) {
    note(fmt::format("rank {}: {}", rank.rank, work.problem));
    return;
  }
  const int64_t end = end_of(work, open_end);
  const std::vector<int64_t> steps = step_ends_of(rank);
  const IdleGaps gaps = idle_gaps(work, end, kGapsOfARank, steps);
  if (gaps.end <= gaps.begin) {
    note(fmt::format("rank {}: the work takes no time", rank.rank));
    return;
  }
  const auto queue = queue_times(queue_changes(work, gaps.begin, gaps.end), gaps.end);
  model::RankIdle row{.rank = rank.rank,
                      .window_s = seconds_of(gaps.end - gaps.begin),
                      .works = static_cast<int64_t>(gaps.works),
                      .idle_s = seconds_of(gaps.idle),
                      .host_wait_s = seconds_of(gaps.host_wait()),
                      .kernel_wait_s = seconds_of(gaps.kernel_wait),
                      .between_steps_s = steps.empty() ? -1 : seconds_of(gaps.between_steps),
                      .queue = {.mean = queue.mean,
                                .median = static_cast<double>(queue.median),
                                .p99 = static_cast<double>(queue.p99),
                                .most = queue.most}};
  for (const Gap& gap : gaps.longest) {
    const int64_t middle = gap.begin + gap.length() / 2;
    out_.gaps.push_back({.rank = rank.rank,
                         .wall_ns = gap.begin + rank.offset_ns,
                         .seconds = seconds_of(gap.length()),
                         .kernel_wait_s = seconds_of(gap.kernel_wait),
                         .after = work.names[gap.after],
                         .before = work.names[gap.before],
                         .python = span_at(rank, middle),
                         .call = call_at(work, middle)});
  }
  if (work.cupti) {
    const auto all = static_cast<double>(work.works.size() + file.lost);
    row.timed_share = static_cast<double>(work.works.size()) / all;
    row.untraced_share = 0;
  } else {
    RankRecord alone{.rank = rank.rank};
    alone.events.push_back(std::move(file));
    const model::RankBreakdown breakdown = operations_of(alone).breakdown;
    row.timed_share = breakdown.timed_share;
    row.untraced_share = breakdown.untraced_share;
  }
  out_.ranks.push_back(row);
}

model::IdleTime IdleAnalysis::finish() {
  std::stable_sort(out_.ranks.begin(), out_.ranks.end(),
                   [](const auto& a, const auto& b) { return a.rank < b.rank; });
  std::stable_sort(out_.gaps.begin(), out_.gaps.end(), [](const auto& a, const auto& b) {
    return std::tuple(-a.seconds, a.rank, a.wall_ns) < std::tuple(-b.seconds, b.rank, b.wall_ns);
  });
  out_.gaps.resize(std::min(out_.gaps.size(), kMostGaps));
  return std::move(out_);
}

}  // namespace xpurun::report
