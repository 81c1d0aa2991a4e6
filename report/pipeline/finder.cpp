#include "report/pipeline/finder.h"

#include "common/base/strings.h"
#include "common/model/rank_set.h"
#include "report/pipeline/bubbles.h"
#include "report/pipeline/clock_order.h"
#include "report/pipeline/steps.h"
#include "report/pipeline/view/wording.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

namespace xpurun::report {

namespace {

constexpr std::string_view kPipelineType = "pp";

// Ranks of one pipeline by stage.
struct Members {
  std::string name;
  std::map<int, const RankJobs*> by_stage;
};

std::vector<Members> by_order(const std::vector<RankJobs>& ranks, const GroupOrder& order) {
  std::map<std::string, Members> found;
  for (const RankJobs& rank : ranks) {
    if (const int stage = order.index_of(rank.rank, kPipelineType); stage >= 0) {
      const std::string name = order.label(rank.rank, kPipelineType);
      found[name].name = name;
      found[name].by_stage.emplace(stage, &rank);
    }
  }
  std::vector<Members> out;
  for (auto& [name, members] : found) {
    out.push_back(std::move(members));
  }
  return out;
}

// Ranks that are joined by groups of point-to-point operations. `ranks` in ascending order.
std::vector<Members> by_groups(const std::vector<RankJobs>& ranks) {
  std::vector<size_t> root(ranks.size());
  std::map<std::string, size_t> first_of_group;
  const auto find = [&](size_t i) {
    while (root[i] != i) {
      i = root[i];
    }
    return i;
  };
  const bool known =
      std::all_of(ranks.begin(), ranks.end(), [](const RankJobs& r) { return !r.groups.empty(); });
  for (size_t i = 0; i < ranks.size(); ++i) {
    root[i] = known ? i : 0;
    for (const std::string& group : ranks[i].groups) {
      const auto [first, is_new] = first_of_group.emplace(group, i);
      if (!is_new && known) {
        const size_t a = find(first->second);
        const size_t b = find(i);
        root[std::max(a, b)] = std::min(a, b);
      }
    }
  }
  std::map<size_t, Members> found;
  for (size_t i = 0; i < ranks.size(); ++i) {
    Members& members = found[find(i)];
    members.by_stage.emplace(static_cast<int>(members.by_stage.size()), &ranks[i]);
  }
  std::vector<Members> out;
  for (auto& [at, members] : found) {
    model::RankSet set;
    for (const auto& [stage, rank] : members.by_stage) {
      set.insert(rank->rank);
    }
    members.name = fmt::format("ranks {}", set.brief());
    out.push_back(std::move(members));
  }
  return out;
}

// Ranks of data parallelism may exchange values too. In a pipeline, every stage but the last sends what its
// forward jobs made.
bool is_chain(const Members& members) {
  size_t sending = 0;
  for (const auto& [stage, rank] : members.by_stage) {
    sending += rank->sends_forwards ? 1 : 0;
  }
  return sending + 1 >= members.by_stage.size();
}

model::PipelineStage stage_of(int number, const RankJobs& rank, int64_t shift_ns) {
  model::PipelineStage out{.stage = number,
                           .rank = rank.rank,
                           .device = rank.device,
                           .machine = rank.machine,
                           .host = rank.host,
                           .source = rank.source};
  out.jobs.reserve(rank.jobs.size());
  for (const Job& job : rank.jobs) {
    out.jobs.push_back({.kind = job.kind,
                        .type = job.type,
                        .number = job.number,
                        .micro_batch = job.micro_batch,
                        .chunk = job.chunk,
                        .gpu = job.gpu,
                        .at_least = job.at_least,
                        .begin_ns = job.begin_ns + shift_ns,
                        .duration_ns = job.end_ns - job.begin_ns});
  }
  return out;
}

int64_t first_begin(const std::vector<RankJobs>& ranks, const ClockOffset& offset) {
  int64_t out = std::numeric_limits<int64_t>::max();
  for (const RankJobs& rank : ranks) {
    out = std::min(out, rank.jobs.front().begin_ns + offset(rank.host));
  }
  return out;
}

std::vector<std::string> notes_of(const std::vector<RankJobs>& ranks) {
  std::vector<std::string> out;
  model::RankSet lost;
  for (const RankJobs& rank : ranks) {
    if (rank.lost > 0) {
      lost.insert(rank.rank);
    }
  }
  if (!lost.empty()) {
    out.push_back(
        fmt::format("spans or timed calls of ranks {} were lost; jobs may be missing", lost.brief()));
  }
  return out;
}

int64_t as_it_is(const std::string&) {
  return 0;
}

model::PipelineReport build(const std::vector<RankJobs>& ranks, const std::vector<Members>& all,
                            const ClockOffset& offset, int64_t first_step) {
  model::PipelineReport out{.begin_ns = first_begin(ranks, offset), .notes = notes_of(ranks)};
  for (const Members& members : all) {
    if (members.by_stage.size() < 2) {
      continue;
    }
    model::Pipeline pipeline{.name = members.name};
    std::vector<std::vector<int64_t>> marks;
    for (const auto& [stage, rank] : members.by_stage) {
      const int64_t shift = offset(rank->host) - out.begin_ns;
      pipeline.stages.push_back(stage_of(stage, *rank, shift));
      marks.push_back(rank->step_marks);
      for (int64_t& mark : marks.back()) {
        mark += shift;
      }
    }
    find_steps(pipeline, marks);
    measure(pipeline);
    for (model::PipelineStep& step : pipeline.steps) {
      step.number += first_step;
    }
    pipeline.sentence = pipeline_sentence(pipeline);
    out.pipelines.push_back(std::move(pipeline));
  }
  return out;
}

}  // namespace

void PipelineFinder::add(const Activity& activity) {
  if (auto jobs = options_.wants(activity.rank) ? jobs_of(activity, options_.functions, options_.evidence)
                                                : std::nullopt) {
    add(std::move(*jobs));
  }
}

void PipelineFinder::add(RankJobs rank) {
  // A rank that was started on another host counts there.
  const auto known =
      std::find_if(ranks_.begin(), ranks_.end(), [&](const RankJobs& r) { return r.rank == rank.rank; });
  if (rank.jobs.empty() || !options_.wants(rank.rank)) {
    return;
  }
  if (known == ranks_.end()) {
    ranks_.push_back(std::move(rank));
  } else if (known->jobs.back().begin_ns < rank.jobs.back().begin_ns) {
    *known = std::move(rank);
  }
}

std::optional<model::PipelineReport> PipelineFinder::finish(const ClockOffset& offset) {
  std::sort(ranks_.begin(), ranks_.end(),
            [](const RankJobs& a, const RankJobs& b) { return a.rank < b.rank; });
  if (ranks_.size() < 2) {
    return std::nullopt;
  }
  const bool ordered = options_.groups && options_.groups->has(kPipelineType);
  std::vector<Members> members = ordered ? by_order(ranks_, *options_.groups) : by_groups(ranks_);
  if (!ordered) {
    std::erase_if(members, [](const Members& one) { return !is_chain(one); });
  }
  model::PipelineReport out = build(ranks_, members, offset ? offset : as_it_is, options_.first_step);
  if (!offset) {
    const std::map<std::string, int64_t> corrections = clock_corrections(out);
    if (!corrections.empty()) {
      const auto corrected = [&](const std::string& host) {
        const auto found = corrections.find(host);
        return found == corrections.end() ? 0 : found->second;
      };
      out = build(ranks_, members, corrected, options_.first_step);
      for (const auto& [host, ns] : corrections) {
        out.notes.push_back(
            fmt::format("the clock of {} was moved by {:+.3f} ms: forward jobs follow those of "
                        "the stage before, backward jobs those of the stage behind",
                        base::sanitize(host), static_cast<double>(ns) / 1e6));
      }
    }
  }
  if (out.pipelines.empty()) {
    return std::nullopt;
  }
  out.sentence = pipelines_sentence(out);
  if (out.pipelines.size() == 1 && !ordered) {
    out.pipelines.front().name.clear();
  }
  return out;
}

}  // namespace xpurun::report
