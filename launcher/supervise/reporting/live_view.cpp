#include "launcher/supervise/reporting/live_view.h"

#include "common/base/strings.h"
#include "common/model/rank_set.h"
#include "common/model/timing/op_names.h"
#include "launcher/collect/gpu_time.h"
#include "launcher/output/status_text.h"
#include "report/diagnosis/collectives/analysis.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::launcher {

namespace {

// "AllReduce 812 of tp"
std::string collective_text(const CommTotals& comm) {
  const CollectiveSignature& last = comm.last.back();
  wire::OpKey key{};
  key.api = last.api;
  return fmt::format("{} {}{}{}", model::collective_name(key), last.sequence, comm.name.empty() ? "" : " of ",
                     comm.name);
}

void add_timing(const RankTiming& timing, LiveRank& r) {
  r.flops_per_s = timing.rates.flops_per_s;
  r.collectives_per_s = timing.rates.collectives_per_s;
  r.dropped = timing.health.ring_dropped;
  r.untraced_share = estimate_gpu_time(timing.ops).untraced_share();
  uint64_t newest = 0;
  for (const CommTotals& comm : timing.comms) {
    r.outstanding += comm.outstanding();
    if (!comm.last.empty() && comm.last_change_ns >= newest) {
      newest = comm.last_change_ns;
      r.last_collective = collective_text(comm);
    }
  }
}

// Before the verdict, only the recorded calls show which rank the others wait for: a rank that stands still
// may itself be waiting.
model::RankSet culprits(const LiveSources& sources, const LiveStatus& status) {
  const model::Stall* stall = sources.journal.open_stall();
  if (stall != nullptr && !stall->verdict.sentence.empty()) {
    return stall->verdict.ranks;
  }
  if (stalled_s(status) <= 0 && !has_quiet_rank(status)) {
    return {};
  }
  const auto fault = report::find_call_fault(sources.calls());
  return fault && fault->complete && !fault->tie ? fault->accused : model::RankSet();
}

// The ranks wait for each other, so the first rank with steps stands for the job.
LiveSteps steps_of(const LiveSources& sources, const std::vector<LiveRank>& ranks) {
  for (const LiveRank& r : ranks) {
    if (const auto seen = sources.steps.rank(r.rank); seen.step_s >= 0) {
      LiveSteps out{.done = static_cast<int64_t>(seen.steps), .step_s = seen.step_s};
      const auto& slowdowns = sources.journal.manifest().slowdowns;
      if (!slowdowns.empty() && slowdowns.back().cleared_s < 0) {
        out.slower_share = slowdowns.back().share;
        out.slower_since = slowdowns.back().step;
        out.slower_wall_ns = slowdowns.back().wall_ns;
      }
      out.slow_ranks = sources.slow_ranks;
      return out;
    }
  }
  return {};
}

}  // namespace

LiveRank live_rank(const model::RankObservation& o, bool alive, const RankTiming* timing) {
  LiveRank r;
  r.rank = o.rank;
  r.pid = o.pid;
  r.state = o.state;
  r.alive = alive;
  r.still_s = o.still_s;
  r.cpu_share = o.cpu_share;
  r.function = o.user_place.function;
  r.file = o.user_place.file;
  r.line = o.user_place.line;
  if (timing != nullptr) {
    add_timing(*timing, r);
  }
  return r;
}

LiveStatus live_status(const LiveSources& sources) {
  const model::RunManifest& m = sources.journal.manifest();
  const base::MonoNs until_poll = sources.watcher.next_poll() - sources.loop.now();
  LiveStatus out{.run = m.id,
                 .host = m.host,
                 .command = m.command,
                 .elapsed_s = sources.journal.elapsed_s(),
                 .hang_timeout_s = m.hang_timeout_s,
                 .next_check_s = std::max(0.0, base::ns_to_s(until_poll)),
                 .world_size = sources.table.world_size(),
                 .timing = std::string(model::level_name(sources.timing.level())),
                 .trace = sources.timing.trace().dir()};
  if (const model::Stall* stall = sources.journal.open_stall()) {
    const double since_s = stall->since_s < 0 ? stall->at_s : stall->since_s;
    out.stall_s = std::max(0.0, out.elapsed_s - since_s);
    out.problem = stall->verdict.sentence;
    out.verdict = stall->verdict;
    // A status is requested often, so the long parts of the verdict are left out.
    out.verdict.evidence.clear();
    out.verdict.log_tail = {};
  }
  const auto add = [&](const std::vector<model::RankObservation>& observations, bool alive) {
    for (const model::RankObservation& o : observations) {
      out.ranks.push_back(live_rank(o, alive, sources.timing.read({o.pid, o.rank, -1, alive})));
      LiveRank& added = out.ranks.back();
      added.step_s = sources.steps.rank(o.rank).step_s;
      if (const TrackedProcess* process = sources.table.find(o.pid)) {
        added.rss_bytes = process->record.rss_bytes;
        added.gpu_bytes = process->record.gpu_memory.allocated_bytes;
      }
      const double late = sources.timing.lateness(o.rank).late_share;
      added.late_s = added.step_s >= 0 && late >= 0 ? late * added.step_s : -1;
    }
  };
  add(sources.watcher.living_observations(), true);
  out.steps = steps_of(sources, out.ranks);
  add(sources.watcher.last_observations(), false);
  out.culprits = culprits(sources, out);
  return out;
}

LiveStatus status_of_others(const std::vector<NodeInfo>& nodes, const std::string& own, int expected) {
  LiveStatus out;
  for (const NodeInfo& n : nodes) {
    if (n.node == own) {
      continue;
    }
    if (!n.alive && n.phase != NodePhase::ended) {
      out.gaps.push_back(fmt::format("no word from host {} for {}: ranks {}", n.host,
                                     base::human_duration(n.seen_s), model::RankSet::of(n.expected).brief()));
      continue;
    }
    for (const RankOnNode& r : n.ranks) {
      out.ranks.push_back({.rank = r.rank,
                           .host = n.host,
                           .state = r.state,
                           .alive = r.alive && n.alive,
                           .still_s = r.still_s,
                           .cpu_share = -1,
                           .where = r.where});
    }
  }
  if (expected > static_cast<int>(nodes.size())) {
    out.gaps.push_back(fmt::format("{} of {} nodes have not been heard of",
                                   expected - static_cast<int>(nodes.size()), expected));
  }
  return out;
}

std::vector<ListedNode> listed(const std::vector<NodeInfo>& nodes) {
  std::vector<ListedNode> out;
  for (const NodeInfo& n : nodes) {
    out.push_back({.node = n.node,
                   .node_rank = n.node_rank,
                   .host = n.host,
                   .phase = n.phase,
                   .alive = n.alive,
                   .elected = n.elected,
                   .still_s = n.still_s,
                   .seen_s = n.seen_s,
                   .offset_ns = n.offset_ns,
                   .uncertainty_ns = n.uncertainty_ns,
                   .ranks = model::RankSet::of(n.expected).text()});
  }
  return out;
}

}  // namespace xpurun::launcher
