#include "launcher/nodes/job_identity.h"

#include "common/base/hash.h"
#include "common/base/strings.h"
#include "common/wire/identity.h"
#include "launcher/nodes/node_limits.h"

#include <fmt/format.h>

#include <array>
#include <initializer_list>
#include <optional>

namespace xpurun::launcher {

namespace {

constexpr size_t kLongestWord = 64;

std::optional<int> number(const Environment& env, const char* name) {
  const auto it = env.find(name);
  if (it == env.end()) {
    return std::nullopt;
  }
  const auto n = base::parse_int(it->second);
  return n && *n >= 0 && *n <= kMostRanksOfJob ? std::optional(static_cast<int>(*n)) : std::nullopt;
}

std::string text(const Environment& env, const char* name) {
  const auto it = env.find(name);
  return it == env.end() ? std::string() : it->second;
}

// Variables by which something above xpurun numbers the xpuruns of a job, beside those of ranks
// (wire::kIdentityVariables), which number the xpuruns that a launcher has started.
struct NodeVariables {
  const char* index;
  const char* count;
  // Present only where the launcher has started this very process: a batch script of Slurm has the other
  // variables too.
  const char* needs;
};
constexpr const char* kStepOfSlurm = "SLURM_STEP_ID";
constexpr NodeVariables kTaskOfSlurm{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", kStepOfSlurm};
constexpr std::array<NodeVariables, 5> kNodeVariables = {{
    {"PET_NODE_RANK", "PET_NNODES", ""},  // torchrun's options as variables: PyTorchJob
    {"NODE_RANK", "NNODES", ""},
    {"NODE_RANK", "NUM_NODES", ""},
    {"JOB_COMPLETION_INDEX", "NNODES", ""},  // Kubernetes, indexed Job
    {"JOB_COMPLETION_INDEX", "", ""},
}};

struct Place {
  int index = -1;
  int count = 0;
};

std::optional<Place> place_by(const Environment& own, const NodeVariables& v) {
  const auto index = number(own, v.index);
  if (!index || (*v.needs != '\0' && own.count(v.needs) == 0)) {
    return std::nullopt;
  }
  const int count = number(own, v.count).value_or(0);
  // A step with one task: the steps may still be the nodes of one job, which other variables show.
  return count > 1 || (count == 0 && *v.count == '\0') ? std::optional(Place{*index, count}) : std::nullopt;
}

Place place_from_above(const Environment& own) {
  std::vector<NodeVariables> all{kTaskOfSlurm};
  for (const wire::IdentityVariables& v : wire::kIdentityVariables) {
    // RANK alone says nothing about nodes.
    const bool of_ranks = v.kind == wire::IdentityKind::torchrun || v.kind == wire::IdentityKind::plain;
    if (!of_ranks && *v.world_size != '\0') {
      all.push_back({v.rank, v.world_size, v.kind == wire::IdentityKind::slurm ? kStepOfSlurm : ""});
    }
  }
  all.insert(all.end(), kNodeVariables.begin(), kNodeVariables.end());
  for (const NodeVariables& v : all) {
    if (const auto place = place_by(own, v)) {
      return *place;
    }
  }
  return {};
}

struct RankPlace {
  int rank = -1;
  int world_size = 0;
  int local_rank = -1;
  int local_size = 0;

  bool known() const { return rank >= 0 && world_size > 0; }
};

RankPlace place_of_rank(const Environment& rank) {
  // A launcher below passes the variables of Slurm on, so they come last.
  for (const bool per_process : {true, false}) {
    for (const wire::IdentityVariables& v : wire::kIdentityVariables) {
      const RankPlace place{.rank = number(rank, v.rank).value_or(-1),
                            .world_size = number(rank, v.world_size).value_or(0),
                            .local_rank = number(rank, v.local_rank).value_or(-1),
                            .local_size = number(rank, v.local_size).value_or(0)};
      if (v.is_per_process == per_process && place.known()) {
        return place;
      }
    }
  }
  return {};
}

std::string first_of(const Environment& a, const Environment& b, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    for (const Environment* env : {&a, &b}) {
      if (std::string value = text(*env, name); !value.empty()) {
        return value;
      }
    }
  }
  return "";
}

std::string scheduler_identifier(const IdentitySources& s) {
  if (const std::string job = first_of(s.rank, s.own, {"SLURM_JOB_ID"}); !job.empty()) {
    return fmt::format("slurm-{}-{}", job, first_of(s.own, s.rank, {"SLURM_STEP_ID"}));
  }
  return first_of(s.rank, s.own, {"JOB_UID", "PMIX_NAMESPACE"});
}

JobMark mark_of(const IdentitySources& s, int world_size) {
  // torchrun's default is the same for every job.
  const std::string id = first_of(s.rank, s.own, {"TORCHELASTIC_RUN_ID"});
  return {.run_id = id == "none" ? "" : id,
          .scheduler = scheduler_identifier(s),
          .address = first_of(s.rank, s.own, {"MASTER_ADDR"}),
          .port = first_of(s.rank, s.own, {"MASTER_PORT"}),
          .world_size = world_size};
}

// The name comes first: the launcher's variables may differ between the nodes (MASTER_ADDR=localhost on one
// of them). Jobs of one name are told apart by their marks.
std::string run_identifier(const std::string& name, const JobMark& mark) {
  for (const std::string& id : {name, mark.run_id, mark.scheduler}) {
    if (!id.empty()) {
      return id;
    }
  }
  return mark.address.empty() ? "" : fmt::format("{}-{}", mark.address, mark.port);
}

std::vector<base::Rank> ranks_beside(const RankPlace& rank) {
  std::vector<base::Rank> out;
  if (rank.local_rank < 0 || rank.local_size <= 0 || rank.local_rank > rank.rank ||
      static_cast<size_t>(rank.local_size) > kMostRanksOfNode) {
    return out;
  }
  for (int i = 0; i < rank.local_size; ++i) {
    out.push_back(rank.rank - rank.local_rank + i);
  }
  return out;
}

}  // namespace

JobIdentity job_identity(const IdentitySources& s) {
  const RankPlace rank = place_of_rank(s.rank);
  JobIdentity out{.mark = mark_of(s, rank.world_size)};
  out.run = run_identifier(s.name, out.mark);
  out.world_size = rank.world_size;
  out.local_ranks = ranks_beside(rank);
  const Place above = place_from_above(s.own);
  // The world does not end at this node. Without a local size, the ranks of a world of several may all be
  // here.
  const bool reaches_out = rank.known() && rank.local_size > 0 && rank.world_size > rank.local_size;
  if (reaches_out || (rank.known() && rank.local_size == 0 && above.count > 1)) {
    const int groups = number(s.rank, "GROUP_WORLD_SIZE").value_or(0);
    out.nodes = above.count > 1 ? above.count : groups;
    out.node_rank = above.count > 1 ? above.index : number(s.rank, "GROUP_RANK").value_or(above.index);
    if (out.nodes <= 1 && rank.local_size > 0) {
      out.nodes = (rank.world_size + rank.local_size - 1) / rank.local_size;
    }
    if (out.node_rank < 0 && rank.local_size > 0) {
      out.node_rank = rank.rank / rank.local_size;
    }
  }
  if (s.nodes > 0) {
    out.nodes = s.nodes;
    out.node_rank = out.node_rank < 0 ? above.index : out.node_rank;
  }
  if (s.node_rank >= 0) {
    out.node_rank = s.node_rank;
  }
  return out;
}

std::string JobIdentity::missing() const {
  if (node_rank < 0) {
    return "the rank of this node is not known: --node-rank";
  }
  if (nodes > 0 && node_rank >= nodes) {
    return fmt::format("node rank {} is not below the number of nodes, {}", node_rank, nodes);
  }
  return run.empty() ? "nothing names the job on all its nodes: --name" : "";
}

std::string plain_word(std::string_view text) {
  std::string out;
  bool changed = text.empty() || text.size() > kLongestWord;
  for (const char c : text.substr(0, kLongestWord)) {
    const bool plain =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
    out += plain ? c : '_';
    changed |= !plain;
  }
  return changed ? fmt::format("{}-{:08x}", out, static_cast<uint32_t>(base::hash_text(text))) : out;
}

std::string node_name(int node_rank, std::string_view host) {
  return fmt::format("{}-{}", node_rank, plain_word(host));
}

}  // namespace xpurun::launcher
