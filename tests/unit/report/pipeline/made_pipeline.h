// Made jobs of a training pipeline for the tests: one forward and one backward at a time (1F1B), with the
// times that follow from the order alone.
#pragma once

#include "report/pipeline/finder.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace xpurun::tests {

inline constexpr int64_t kMs = 1'000'000;
inline constexpr int64_t kBegin = 1'795'230'915'000'000'000;

struct MadeStage {
  int64_t forward_ms = 1;
  int64_t backward_ms = 2;
};

struct MadePipeline {
  std::vector<MadeStage> stages;
  int batches = 4;
  int steps = 1;
  int64_t optimizer_ms = 1;
  bool numbered = false;  // jobs know their micro-batches
};

// What a stage does in a step, in its order: forwards until the pipeline is full, then one of each, then the
// remaining backwards.
inline std::vector<std::pair<model::JobKind, int>> order_of(size_t stage, size_t stages, int batches) {
  std::vector<std::pair<model::JobKind, int>> out;
  const int ahead = std::min(batches, static_cast<int>(stages - stage - 1));
  for (int i = 0; i < ahead; ++i) {
    out.emplace_back(model::JobKind::forward, i);
  }
  for (int i = 0; i < batches; ++i) {
    if (i + ahead < batches) {
      out.emplace_back(model::JobKind::forward, i + ahead);
    }
    out.emplace_back(model::JobKind::backward, i);
  }
  return out;
}

// Jobs of one step that begins at `at`; returns the end of the last job.
inline int64_t make_step(const MadePipeline& made, int64_t at, std::vector<report::RankJobs>& ranks) {
  const size_t n = made.stages.size();
  const auto table = std::vector(n, std::vector<int64_t>(static_cast<size_t>(made.batches), -1));
  auto forward = table;
  auto backward = table;
  std::vector<size_t> next(n, 0);
  std::vector<int64_t> free(n, at);
  std::vector<std::vector<std::pair<model::JobKind, int>>> orders;
  for (size_t s = 0; s < n; ++s) {
    orders.push_back(order_of(s, n, made.batches));
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t s = 0; s < n; ++s) {
      if (next[s] == orders[s].size()) {
        continue;
      }
      const auto [kind, batch] = orders[s][next[s]];
      const auto b = static_cast<size_t>(batch);
      const bool is_forward = kind == model::JobKind::forward;
      const int64_t ready =
          is_forward ? (s == 0 ? at : forward[s - 1][b]) : (s + 1 == n ? forward[s][b] : backward[s + 1][b]);
      if (ready < 0) {
        continue;
      }
      const int64_t begin = std::max(free[s], ready);
      const int64_t end = begin + (is_forward ? made.stages[s].forward_ms : made.stages[s].backward_ms) * kMs;
      (is_forward ? forward : backward)[s][b] = end;
      ranks[s].jobs.push_back(
          {.begin_ns = begin, .end_ns = end, .kind = kind, .micro_batch = made.numbered ? batch : -1});
      free[s] = end;
      ++next[s];
      moved = true;
    }
  }
  for (size_t s = 0; s < n && made.optimizer_ms > 0; ++s) {
    ranks[s].jobs.push_back({.begin_ns = free[s],
                             .end_ns = free[s] + made.optimizer_ms * kMs,
                             .kind = model::JobKind::optimizer});
  }
  return *std::max_element(free.begin(), free.end()) + made.optimizer_ms * kMs;
}

inline std::vector<report::RankJobs> make_ranks(const MadePipeline& made) {
  std::vector<report::RankJobs> out;
  for (size_t s = 0; s < made.stages.size(); ++s) {
    out.push_back({.rank = static_cast<base::Rank>(s), .host = fmt::format("node{}", s)});
  }
  int64_t at = kBegin;
  for (int step = 0; step < made.steps; ++step) {
    at = make_step(made, at, out);
  }
  return out;
}

inline std::optional<model::PipelineReport> find(std::vector<report::RankJobs> ranks,
                                                 report::PipelineOptions options = {}) {
  report::PipelineFinder finder(std::move(options));
  for (report::RankJobs& rank : ranks) {
    finder.add(std::move(rank));
  }
  return finder.finish({});
}

}  // namespace xpurun::tests
