#include "report/nodes/job_runs.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "report/diagnosis/rank_view.h"
#include "report/events/files/record_files.h"
#include "report/run/picked_dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>
#include <thread>

namespace xpurun::report {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMostNodes = 100'000;
constexpr size_t kMostReaders = 4;
// Variables by which schedulers and launchers identify their jobs.
constexpr std::string_view kRunIds[] = {"TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "SLURM_STEP_ID", "PBS_JOBID",
                                        "LSB_JOBID"};

// "nodes/b": exactly that, and not a link that leads elsewhere.
bool is_node_directory(const model::RunDir& dir, const std::string& name) {
  const auto parts = base::split(name, '/');
  if (parts.size() != 2 || parts[0] != model::kNodesDir || parts[1].empty() || parts[1] == "." ||
      parts[1] == "..") {
    return false;
  }
  std::error_code ec;
  const fs::file_status parent = fs::symlink_status(dir.file(model::kNodesDir), ec);
  const fs::file_status own = fs::symlink_status(dir.file(name), ec);
  return fs::is_directory(parent) && fs::is_directory(own);
}

void load(NodeRun& node) {
  const model::RunDir dir(node.path);
  auto run = model::load_run_manifest(dir.run_json());
  if (run) {
    node.run = std::move(*run);
    node.answered = true;
  } else {
    node.trouble = base::to_line(run.error());
  }
}

// In a few threads, because a job may have a thousand nodes, each with a run.json.
void load_all(std::vector<NodeRun>& nodes, size_t first) {
  const size_t readers = std::min<size_t>({kMostReaders, std::max(1U, std::thread::hardware_concurrency()),
                                           std::max<size_t>(nodes.size() - first, 1)});
  std::vector<std::thread> threads;
  for (size_t i = 0; i < readers; ++i) {
    threads.emplace_back([&nodes, first, readers, i] {
      for (size_t n = first + i; n < nodes.size(); n += readers) {
        if (!nodes[n].path.empty()) {
          load(nodes[n]);
        }
      }
    });
  }
  for (std::thread& t : threads) {
    t.join();
  }
}

void tell_troubles(JobRuns& job) {
  for (size_t n = 1; n < job.nodes.size(); ++n) {
    if (!job.nodes[n].trouble.empty()) {
      job.notes.push_back(
          fmt::format("node {}: {}", base::sanitize(job.nodes[n].entry.node), job.nodes[n].trouble));
    }
  }
}

// Larger rank numbers are not believed.
model::RankSet believable(const model::RankSet& ranks) {
  return ranks.minus(ranks.minus(model::RankSet::range(0, base::kHighestRank - 1)));
}

void add_entries(JobRuns& job, const model::RunDir& dir, model::Nodes listed) {
  std::set<std::string> names;
  for (model::NodeEntry& entry : listed.nodes) {
    const std::string name = base::sanitize(entry.node);
    if (entry.node.empty() || !names.insert(entry.node).second || names.size() > kMostNodes) {
      job.notes.push_back(fmt::format("nodes.json: a second entry or one without a name: '{}'", name));
      continue;
    }
    entry.ranks = believable(entry.ranks);
    if (entry.node == listed.this_node) {
      entry.host = job.nodes.front().run.host.empty() ? entry.host : job.nodes.front().run.host;
      job.nodes.front().entry = std::move(entry);
      continue;
    }
    NodeRun node{.entry = std::move(entry)};
    const std::string& directory = node.entry.directory;
    if (!directory.empty() && is_node_directory(dir, directory)) {
      node.path = dir.file(directory);
      node.label = directory + "/";
    } else if (!directory.empty() || node.entry.status == model::NodeStatus::complete) {
      node.trouble = fmt::format("'{}' is not a directory below nodes/", base::sanitize(directory));
    }
    job.nodes.push_back(std::move(node));
  }
  std::stable_sort(job.nodes.begin() + 1, job.nodes.end(),
                   [](const NodeRun& a, const NodeRun& b) { return a.entry.node_rank < b.entry.node_rank; });
}

base::Error not_one_job(const NodeRun& a, const NodeRun& b, std::string cause) {
  return {.what = fmt::format("{} and {} are not of the same job", a.path, b.path),
          .id = "E-NODES",
          .cause = std::move(cause),
          .hint = "name the run directories of the nodes of one job, one for each node"};
}

base::Status check_fit(const NodeRun& a, const NodeRun& b) {
  if (a.run.world_size > 0 && b.run.world_size > 0 && a.run.world_size != b.run.world_size) {
    return base::fail(not_one_job(
        a, b, fmt::format("one has {} ranks in all, the other {}", a.run.world_size, b.run.world_size)));
  }
  for (const std::string_view name : kRunIds) {
    const auto x = a.run.env.find(std::string(name));
    const auto y = b.run.env.find(std::string(name));
    if (x != a.run.env.end() && y != b.run.env.end() && x->second != y->second) {
      return base::fail(not_one_job(a, b,
                                    fmt::format("{} is {} in one and {} in the other", name,
                                                base::sanitize(x->second), base::sanitize(y->second))));
    }
  }
  model::RankSet ranks;
  for (const model::ProcessRecord* p : current_ranks(a.run)) {
    ranks.insert(p->rank);
  }
  for (const model::ProcessRecord* p : current_ranks(b.run)) {
    if (ranks.contains(p->rank)) {
      return base::fail(not_one_job(a, b, fmt::format("both have a rank {}", p->rank)));
    }
  }
  return {};
}

// Host names do not distinguish nodes where several nodes are on one host.
void name_nodes(JobRuns& job) {
  std::map<std::string, int> seen;
  for (NodeRun& node : job.nodes) {
    node.entry.host = node.run.host;
    const int n = ++seen[node.run.host];
    node.entry.node = n == 1 ? node.run.host : fmt::format("{}#{}", node.run.host, n);
  }
}

}  // namespace

base::Result<JobRuns> read_job(const model::RunDir& dir) {
  XPURUN_TRY_ASSIGN(LoadedRun loaded, load_run(dir));
  JobRuns job{.notes = std::move(loaded.notes)};
  job.nodes.push_back({.path = dir.path(), .answered = true, .run = std::move(loaded.run)});
  NodeRun& here = job.nodes.front();
  here.entry.node = here.entry.host = here.run.host;
  const std::string path = dir.file(model::kNodesFile);
  if (!base::file_exists(path)) {
    return job;
  }
  auto listed = model::load_nodes(path);
  if (!listed) {
    job.notes.push_back(base::to_line(listed.error()));
    return job;
  }
  job.handed = !here.run.job_report_host.empty();
  add_entries(job, dir, std::move(*listed));
  load_all(job.nodes, 1);
  tell_troubles(job);
  return job;
}

base::Result<JobRuns> read_job(const std::vector<model::RunDir>& dirs) {
  JobRuns job;
  for (const model::RunDir& dir : dirs) {
    job.nodes.push_back({.path = dir.path(), .label = job.nodes.empty() ? std::string() : dir.path() + "/"});
  }
  load_all(job.nodes, 0);
  for (const NodeRun& node : job.nodes) {
    if (!node.answered) {
      return base::fail(base::Error{.what = node.trouble, .id = "E-NO-RUN"});
    }
    if (&node != &job.nodes.front()) {
      XPURUN_TRY(check_fit(job.nodes.front(), node));
    }
  }
  name_nodes(job);
  return job;
}

base::Result<JobRuns> read_job(const std::vector<std::string>& places) {
  std::vector<model::RunDir> dirs;
  for (const std::string& place : places) {
    auto dir = model::RunDir::find(place);
    std::error_code ec;
    if (dir) {
      dirs.push_back(std::move(*dir));
    } else if (!fs::exists(place, ec) || record_files(place).files.empty()) {
      return base::fail(dir.error());
    }
  }
  if (dirs.size() == places.size()) {
    return dirs.size() == 1 ? read_job(dirs.front()) : read_job(dirs);
  }
  JobRuns job;
  for (const std::string& place : places) {
    job.nodes.push_back({.path = place});
  }
  return job;
}

RankOwners::RankOwners(const JobRuns& job, const std::vector<double>& shifts_s) {
  struct Life {
    size_t node = 0;
    double from_s = 0;
    double until_s = 0;
    bool expected = false;
  };
  std::map<base::Rank, std::vector<Life>> lives;
  for (size_t n = 0; n < job.nodes.size(); ++n) {
    for (const model::ProcessRecord* p : current_ranks(job.nodes[n].run)) {
      if (p->rank >= base::kHighestRank) {
        notes_.push_back(fmt::format("node {}: rank {} is not believable",
                                     base::sanitize(job.nodes[n].entry.node), p->rank));
        continue;
      }
      const double end =
          p->death.happened ? p->death.at_s + shifts_s[n] : std::numeric_limits<double>::infinity();
      lives[p->rank].push_back({n, p->seen_s + shifts_s[n], end, job.nodes[n].entry.ranks.contains(p->rank)});
    }
  }
  for (auto& [rank, of_rank] : lives) {
    std::stable_sort(of_rank.begin(), of_rank.end(),
                     [](const Life& a, const Life& b) { return a.from_s < b.from_s; });
    const Life* owner = &of_rank.front();
    for (size_t i = 1; i < of_rank.size(); ++i) {
      const Life& next = of_rank[i];
      if (next.from_s >= owner->until_s) {
        owner = &next;  // a restart has moved the rank to another node
        continue;
      }
      disputes_.insert(rank);
      const bool better = next.expected != owner->expected ? next.expected : next.node < owner->node;
      const Life& loser = better ? *owner : next;
      owner = better ? &next : owner;
      notes_.push_back(
          fmt::format("rank {} is on node {} and on node {}: what the latter says of it is left out", rank,
                      base::sanitize(job.nodes[owner->node].entry.node),
                      base::sanitize(job.nodes[loser.node].entry.node)));
    }
    owners_[rank] = owner->node;
  }
}

bool RankOwners::owns(size_t node, base::Rank rank) const {
  if (rank < 0) {
    return true;
  }
  const auto it = owners_.find(rank);
  return rank < base::kHighestRank && (it == owners_.end() || it->second == node);
}

bool RankOwners::disputed(size_t node, base::Rank rank) const {
  return rank >= base::kHighestRank || (disputes_.contains(rank) && !owns(node, rank));
}

}  // namespace xpurun::report
