#include "launcher/nodes/joining.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::launcher {

namespace {

constexpr double kShortestLimitS = 20;
// Time after the evidence, for sending, merging and judging.
constexpr double kAfterEvidenceS = 15;
// The part of the limit that is left for judging after the data has arrived.
constexpr double kForJudgingS = 8;

}  // namespace

double verdict_limit_s(const RunOptions& options) {
  return std::max(kShortestLimitS, options.evidence_timeout_s + kAfterEvidenceS);
}

StartMessage start_message(const RunOptions& options, const JobIdentity& identity, const OwnNode& own) {
  const NodeOptions& n = options.nodes;
  return {.run = plain_word(identity.run),
          .node = node_name(identity.node_rank, own.host),
          .node_rank = identity.node_rank,
          .nodes = identity.nodes,
          .host = own.host,
          .local_ranks = identity.local_ranks.empty() ? own.living : identity.local_ranks,
          .world_size = identity.world_size,
          .url = n.automatic() ? "" : n.url,
          .token = n.token,
          .user = n.user,
          .password = n.password,
          .creds = n.creds,
          .tls_ca = n.ca,
          .tls_cert = n.cert,
          .tls_key = n.key,
          .automatic = n.automatic(),
          .secret_file = n.secret_file,
          .mark = identity.mark,
          .directory = own.directory,
          .hang_timeout_s = options.hang_timeout_s,
          .gather_timeout_s = verdict_limit_s(options) - kForJudgingS,
          .collect_all = n.collect_all};
}

std::string how_to_join(const JobIdentity& identity) {
  return fmt::format(
      "this verdict rests on one of {} nodes: give every node's xpurun --nats URL, or --nats auto "
      "(man xpurun-run, Several nodes)",
      identity.nodes);
}

}  // namespace xpurun::launcher
