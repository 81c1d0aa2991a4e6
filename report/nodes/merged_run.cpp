#include "report/nodes/merged_run.h"

#include "common/base/strings.h"
#include "report/diagnosis/rank_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

namespace xpurun::report {

using model::NodeStatus;
using model::RunManifest;
using model::RunNode;
using model::RunOutcome;

namespace {

// For clocks that were never compared. NTP keeps hosts within some milliseconds, but it may be off or not yet
// synchronised.
constexpr double kUnknownClockS = 1;
// Stalls that begin and end within this time of each other are one.
constexpr double kSameStallS = 1;

bool is_measured(const NodeRun& node) {
  return node.entry.uncertainty_ns >= 0;
}

bool shares_host(const JobRuns& job, size_t n) {
  const std::string& host = job.nodes[n].run.host;
  return !host.empty() && host == job.nodes.front().run.host;
}

std::string gap_of(const NodeRun& node) {
  const std::string name = fmt::format("node {}", node.entry.node);
  const std::string why = node.entry.reason.empty() ? std::string() : fmt::format(" ({})", node.entry.reason);
  const std::string since = node.entry.silent_s > 0
                                ? fmt::format(" for {}", base::human_duration(node.entry.silent_s))
                                : std::string();
  switch (node.entry.status) {
    case NodeStatus::silent:
      return fmt::format("no answer from {}{}{}", name, since, why);
    case NodeStatus::cut_off:
      return fmt::format("no word from {}{}{}", name, since, why);
    case NodeStatus::partial:
      if (!node.answered) {
        break;
      }
      return fmt::format("the data of {} is not complete{}", name, why);
    case NodeStatus::complete:
      break;
  }
  return node.answered ? std::string() : fmt::format("the data of {} cannot be read", name);
}

NodeStatus status_of(const NodeRun& node) {
  const bool claims = node.entry.status == NodeStatus::complete || node.entry.status == NodeStatus::partial;
  return claims && !node.answered ? NodeStatus::cut_off : node.entry.status;
}

RunNode node_of(const JobRuns& job, size_t n) {
  const NodeRun& node = job.nodes[n];
  RunNode out{.name = node.entry.node,
              .host = node.answered && !node.run.host.empty() ? node.run.host : node.entry.host,
              .node_rank = node.entry.node_rank,
              .ranks = node.entry.ranks,
              .status = status_of(node),
              .answered = node.answered,
              .outcome = node.run.outcome,
              .gap = n == 0 ? std::string() : gap_of(node),
              .supervisor_pid = node.run.supervisor_pid,
              .main_pid = node.run.main_pid};
  out.offset_s = static_cast<double>(node.entry.offset_ns) * 1e-9;
  if (n > 0) {
    const bool same = shares_host(job, n);
    const bool started = node.run.started_wall_ns > 0 && job.nodes.front().run.started_wall_ns > 0;
    out.clock_known = started && (is_measured(node) || same);
    out.uncertainty_s = !out.clock_known    ? kUnknownClockS
                        : is_measured(node) ? static_cast<double>(node.entry.uncertainty_ns) * 1e-9
                                            : 0;
  }
  return out;
}

struct NodeStall {
  model::Stall stall;
  size_t node = 0;

  double until_s() const {
    return stall.cleared_s < 0 ? std::numeric_limits<double>::infinity() : stall.cleared_s;
  }
};

// Which of two nodes' records of the same stall to keep.
bool says_more(const NodeStall& a, const NodeStall& b) {
  const auto key = [](const NodeStall& s) {
    return std::tuple(s.stall.verdict.confidence, s.node == 0, !s.stall.dump.empty());
  };
  return key(a) > key(b);
}

// One stall of the job is seen by many nodes.
std::vector<model::Stall> put_together(std::vector<NodeStall> stalls) {
  std::stable_sort(stalls.begin(), stalls.end(),
                   [](const NodeStall& a, const NodeStall& b) { return a.stall.at_s < b.stall.at_s; });
  std::vector<NodeStall> out;
  for (NodeStall& s : stalls) {
    if (out.empty() || s.stall.at_s > out.back().until_s() + kSameStallS) {
      out.push_back(std::move(s));
      continue;
    }
    NodeStall& last = out.back();
    const double at_s = std::min(last.stall.at_s, s.stall.at_s);
    const double until_s = std::max(last.until_s(), s.until_s());
    const double one_s = last.stall.since_s;
    const double other_s = s.stall.since_s;
    const double since_s = one_s < 0 || other_s < 0 ? std::max(one_s, other_s) : std::min(one_s, other_s);
    // The dump of this node comes first: those of the other nodes are put beside it.
    const std::string dump = last.node == 0 && !last.stall.dump.empty() ? last.stall.dump
                             : s.node == 0 && !s.stall.dump.empty()     ? s.stall.dump
                             : !last.stall.dump.empty()                 ? last.stall.dump
                                                                        : s.stall.dump;
    // A node that was told of the stall knows no ranks of it.
    const bool early = (last.stall.early || last.stall.ranks.empty()) &&
                       (s.stall.early || s.stall.ranks.empty()) && (last.stall.early || s.stall.early);
    const size_t node = std::min(last.node, s.node);
    if (says_more(s, last)) {
      last.stall = std::move(s.stall);
    }
    last.node = node;
    last.stall.at_s = at_s;
    last.stall.since_s = since_s;
    last.stall.early = early;
    last.stall.cleared_s = std::isinf(until_s) ? -1 : until_s;
    last.stall.dump = dump;
  }
  std::vector<model::Stall> merged;
  for (NodeStall& s : out) {
    s.stall.n = static_cast<int>(merged.size()) + 1;
    merged.push_back(std::move(s.stall));
  }
  return merged;
}

class Merger {
 public:
  Merger(RunManifest& run, const RankOwners& owners) : run_(run), owners_(owners) {}

  void add(const NodeRun& node, size_t n, double shift_s) {
    RunManifest part = node.run;
    const auto moved = [shift_s](double at_s) { return at_s + shift_s; };
    const auto moved_if_known = [shift_s](double at_s) { return at_s < 0 ? at_s : at_s + shift_s; };
    for (model::ProcessRecord& p : part.processes) {
      p.node = n;
      p.seen_s = moved(p.seen_s);
      p.last_progress_s = p.last_progress_s > 0 ? moved(p.last_progress_s) : 0;
      for (model::StillTime& t : p.still) {
        t = {.from_s = moved(t.from_s), .to_s = moved(t.to_s)};
      }
      p.death.at_s = p.death.happened ? moved(p.death.at_s) : 0;
      put(run_.processes, std::move(p));
    }
    for (model::CrashNotice& c : part.crashes) {
      c.node = n;
      c.at_s = moved(c.at_s);
      c.dump = c.dump.empty() ? c.dump : node.label + c.dump;
      put(run_.crashes, std::move(c));
    }
    for (model::PythonException& x : part.exceptions) {
      x.node = n;
      x.at_s = moved(x.at_s);
      if (x.wall_ns > 0 && __builtin_sub_overflow(x.wall_ns, node.entry.offset_ns, &x.wall_ns)) {
        x.wall_ns = 0;
      }
      put(run_.exceptions, std::move(x));
    }
    for (model::HelperDeath& h : part.helper_deaths) {
      h.node = n;
      h.at_s = moved(h.at_s);
      put(run_.helper_deaths, std::move(h));
    }
    for (model::DumpRecord& d : part.dumps) {
      d.dir = node.label + d.dir;
      d.at_s = moved(d.at_s);
      run_.dumps.push_back(std::move(d));
    }
    for (model::Stall& i : part.stalls) {
      i.at_s = moved(i.at_s);
      i.since_s = moved_if_known(i.since_s);
      i.cleared_s = moved_if_known(i.cleared_s);
      i.verdict_s = moved_if_known(i.verdict_s);
      i.restarted_s = moved_if_known(i.restarted_s);
      i.dump = i.dump.empty() ? i.dump : node.label + i.dump;
      i.verdict.dump = i.verdict.dump.empty() ? i.verdict.dump : node.label + i.verdict.dump;
      stalls_.push_back({std::move(i), n});
    }
    run_.elapsed_s = std::max(run_.elapsed_s, moved(part.elapsed_s));
    run_.world_size = std::max(run_.world_size, part.world_size);
  }

  std::vector<NodeStall> take_stalls() { return std::move(stalls_); }

 private:
  template <typename T>
  void put(std::vector<T>& to, T&& one) {
    if (!owners_.disputed(one.node, one.rank)) {
      to.push_back(std::forward<T>(one));
    }
  }

  RunManifest& run_;
  const RankOwners& owners_;
  std::vector<NodeStall> stalls_;
};

// When the first process of the node ended: an interruption is not recorded by itself.
double first_death(const RunManifest& run, size_t node, bool own_failures) {
  double at_s = std::numeric_limits<double>::infinity();
  for (const model::ProcessRecord& p : run.processes) {
    const bool failure = !p.death.follower && p.death.wait_status.known() && !p.death.wait_status.succeeded();
    if (p.node == node && p.death.happened && (!own_failures || failure)) {
      at_s = std::min(at_s, p.death.at_s);
    }
  }
  return at_s;
}

// The node whose outcome stands for that of the job. A node that hung or still runs says more than a node
// that failed because of it; an interruption counts unless another node failed before it.
size_t telling_node(const JobRuns& job, const RunManifest& run) {
  const auto weight = [&](size_t n) {
    const RunManifest& r = job.nodes[n].run;
    switch (r.outcome) {
      case RunOutcome::spawn_failed:
        return 6;
      case RunOutcome::hang:
        return 5;
      case RunOutcome::running:
      case RunOutcome::detached:
        return 4;
      case RunOutcome::interrupted:
        return 3;
      case RunOutcome::signal:
        return 2;
      case RunOutcome::exit:
        return r.child_status.succeeded() ? 0 : 1;
    }
    return 0;
  };
  size_t best = 0;
  for (size_t n = 1; n < job.nodes.size(); ++n) {
    best = job.nodes[n].answered && weight(n) > weight(best) ? n : best;
  }
  if (job.nodes[best].run.outcome != RunOutcome::interrupted) {
    return best;
  }
  const double interrupted_s = first_death(run, best, false);
  for (size_t n = 0; n < job.nodes.size(); ++n) {
    const bool failed = weight(n) == 1 || weight(n) == 2;
    if (job.nodes[n].answered && failed && first_death(run, n, true) < interrupted_s) {
      return n;
    }
  }
  return best;
}

// The first signal that ends jobs, of all nodes that have got one. Only this node knows what it has asked the
// others.
model::Interrupt first_interrupt(const JobRuns& job, const std::vector<double>& shifts) {
  model::Interrupt first = job.nodes.front().run.interrupt;
  for (size_t n = 1; n < job.nodes.size(); ++n) {
    const model::Interrupt& one = job.nodes[n].run.interrupt;
    const double at_s = one.at_s < 0 ? one.at_s : one.at_s + shifts[n];
    if (!job.nodes[n].answered || one.signal == 0 ||
        (first.signal != 0 && (at_s < 0 || at_s >= first.at_s))) {
      continue;
    }
    first.signal = one.signal;
    first.from_terminal = one.from_terminal;
    first.at_s = at_s;
    first.elsewhere = first.elsewhere.empty() ? one.elsewhere : first.elsewhere;
  }
  return first;
}

}  // namespace

std::vector<double> shifts_of(const JobRuns& job) {
  std::vector<double> out;
  const int64_t begin = job.nodes.front().run.started_wall_ns;
  for (const NodeRun& node : job.nodes) {
    const bool known = begin > 0 && node.run.started_wall_ns > 0 && &node != &job.nodes.front();
    // Damaged or hostile values must not overflow: the difference is taken as floating point.
    out.push_back(known ? (static_cast<double>(node.run.started_wall_ns) - static_cast<double>(begin) -
                           static_cast<double>(node.entry.offset_ns)) *
                              1e-9
                        : 0);
  }
  return out;
}

RunManifest merge_runs(const JobRuns& job, const RankOwners& owners) {
  RunManifest run = job.nodes.front().run;
  if (!job.several()) {
    return run;
  }
  const std::vector<double> shifts = shifts_of(job);
  run.job_report_host.clear();
  run.job_report_dir.clear();
  run.processes.clear();
  run.crashes.clear();
  run.exceptions.clear();
  run.helper_deaths.clear();
  run.dumps.clear();
  Merger merger(run, owners);
  for (size_t n = 0; n < job.nodes.size(); ++n) {
    run.nodes.push_back(node_of(job, n));
    if (job.nodes[n].answered) {
      merger.add(job.nodes[n], n, shifts[n]);
    }
  }
  std::stable_sort(run.dumps.begin(), run.dumps.end(),
                   [](const model::DumpRecord& a, const model::DumpRecord& b) { return a.at_s < b.at_s; });
  run.stalls = put_together(merger.take_stalls());
  for (const model::ProcessRecord* p : current_ranks(run)) {
    run.nodes[p->node].ranks.insert(p->rank);
  }
  run.interrupt = first_interrupt(job, shifts);
  const size_t telling = telling_node(job, run);
  run.outcome = job.nodes[telling].run.outcome;
  run.child_status = job.nodes[telling].run.child_status;
  run.exit_status = job.nodes[telling].run.exit_status;
  if (run.outcome == RunOutcome::spawn_failed) {
    run.command = job.nodes[telling].run.command;
  }
  return run;
}

}  // namespace xpurun::report
