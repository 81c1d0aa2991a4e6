// The messages between a supervisor and its helper xpurun-nodes, one JSON object per line over a socket pair;
// "type" names the message (kType). docs/nodes.md has the meaning. Plain data, used by both sides; the
// functions are pure. Times ending in _s are seconds, in _wall_ns nanoseconds since the Unix epoch.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/model/names.h"
#include "common/model/verdict.h"
#include "launcher/nodes/job_mark.h"
#include "launcher/nodes/node_limits.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace xpurun::launcher {

using model::NodePhase;
// Why a dump of all nodes is wanted.
enum class ClaimReason { hang, crash, death, request };
constexpr bool is_failure(ClaimReason why) {
  return why == ClaimReason::crash || why == ClaimReason::death;
}
enum class DumpOutcome { complete, failed };
using model::NodeStatus;
enum class JobAction { kill, restart, end };

// One rank of a node.
struct RankOnNode {
  base::Rank rank = base::kNoRank;
  char state = '?';    // proc(5): R S D T t Z
  bool alive = true;   // false: the rest is as it was before death
  double still_s = 0;  // since the last progress
  std::string where;   // "forward (train.py:12)"; empty: unknown
  // Newest sequence number called, by communicator id.
  std::map<std::string, uint64_t> sequence;
};

// --- supervisor -> helper

// The first message. Secrets travel only here, never in arguments or environment.
struct StartMessage {
  static constexpr std::string_view kType = "start";
  std::string run;   // identifier that all nodes of the job share
  std::string node;  // name of this node, unique in the job
  int node_rank = 0;
  int nodes = 0;  // of the job; 0: not known
  // Number of the helper: a random one of its supervisor in the upper 32 bits, that of the start in the
  // lower. 0: the helper takes a random one.
  uint64_t instance = 0;
  std::string host;
  std::vector<base::Rank> local_ranks;  // expected on this node
  int world_size = 0;                   // 0: not known
  std::string url;  // "nats://host:4222", several separated by commas; empty with `automatic`
  std::string token;
  std::string user;
  std::string password;
  std::string creds;             // path of a credentials file
  std::string tls_ca;            // path
  std::string tls_cert;          // path
  std::string tls_key;           // path
  bool automatic = false;        // --nats auto; "auto" in JSON
  std::string secret_file;       // where node rank 0 leaves URL and token; empty: in the shared directory
  JobMark mark;                  // its address: where node rank 0 listens
  std::string directory;         // absolute path of the run directory
  double hang_timeout_s = 0;     // 0: no hang detection
  double gather_timeout_s = 20;  // from the request for a dump until `gathered`, at most
  bool collect_all = false;      // archives contain snapshots and logs too
};

// Every kStateIntervalS and on a change.
struct StateMessage {
  static constexpr std::string_view kType = "state";
  NodePhase phase = NodePhase::starting;
  double elapsed_s = 0;
  double still_s = 0;    // of the rank that has been still longest
  int exit_status = -1;  // -1: the job has not ended
  std::vector<RankOnNode> ranks;
};

// This node saw something that needs a dump of all nodes. A dump of this node may be under way.
struct StalledMessage {
  static constexpr std::string_view kType = "stalled";
  int stall = 0;  // the supervisor's own number
  ClaimReason why = ClaimReason::hang;
  std::vector<base::Rank> ranks;
};

// The dump for `request` is done and lies in `directory` ("dumps/0001-hang").
struct DumpedMessage {
  static constexpr std::string_view kType = "dumped";
  std::string request;
  std::string directory;  // relative to the run directory; may be empty if failed
  DumpOutcome status = DumpOutcome::complete;
  std::string reason;  // of a failure
};

// From the supervisor of the elected node to its helper, which publishes the verdict, and from the helper of
// every other node to its supervisor.
struct VerdictMessage {
  static constexpr std::string_view kType = "verdict";
  std::string request;
  std::string node;       // who judged; the helper fills it in
  std::string directory;  // its run directory, on its host; the helper fills it in
  // The data of all nodes is handed out: JobFilesMessage follows on every node. The helper fills it in.
  bool shared = false;
  model::Verdict verdict;
};

// An action on the whole job. Travels like VerdictMessage.
struct ActMessage {
  static constexpr std::string_view kType = "act";
  JobAction action = JobAction::end;
  int exit_status = -1;  // -1: each node's own
  std::string reason;
};

// The answer to a RequestMessage, exactly one.
struct AnswerMessage {
  static constexpr std::string_view kType = "answer";
  uint64_t id = 0;  // of the request
  int status = 0;   // of HTTP: 200, 404, 503
  std::string body;
};

// A control request to other nodes.
struct AskMessage {
  static constexpr std::string_view kType = "ask";
  uint64_t id = 0;        // the supervisor's own number, comes back in AnswersMessage
  std::string node;       // empty: all other nodes
  std::string verb;       // "cmd" of the control request: status, dump, timing, trace
  std::string arguments;  // JSON text of the whole control request
  // Until the last answer.
  double limit_s = kAnswerTimeoutS;
};

// Last words: the helper publishes them and exits.
struct EndMessage {
  static constexpr std::string_view kType = "end";
  int exit_status = 0;
};

// --- helper -> supervisor

struct JoinedMessage {
  static constexpr std::string_view kType = "joined";
  std::string server;   // URL without secrets
  std::string elected;  // node
  int nodes = 0;        // that are alive, this one included
};

// Cut off from the server; the helper goes on trying.
struct AloneMessage {
  static constexpr std::string_view kType = "alone";
  std::string reason;
};

// The user has to change something. The helper exits after it with status 0; starting it again does not help.
struct FailedMessage {
  static constexpr std::string_view kType = "failed";
  std::string reason;
};

struct NodeInfo {
  std::string node;
  int node_rank = 0;
  std::string host;
  NodePhase phase = NodePhase::starting;
  double elapsed_s = 0;
  double still_s = 0;
  double seen_s = 0;            // age of its latest message
  bool alive = true;            // false: no message for kDeadAfterS, or its last message has come
  int64_t offset_ns = 0;        // its clock minus this node's clock
  int64_t uncertainty_ns = -1;  // half of the shortest round trip; -1: not measured
  bool elected = false;
  int exit_status = -1;
  std::vector<base::Rank> expected;  // its local ranks, from its first state
  std::vector<RankOnNode> ranks;
};

// Every kStateIntervalS: all nodes that were ever seen, this one included, by node rank.
struct NodesMessage {
  static constexpr std::string_view kType = "nodes";
  std::vector<NodeInfo> nodes;
  uint64_t dropped = 0;  // messages from strangers, too large or malformed, since the start
};

// Make a dump at that moment of this node's clock; a moment in the past means now. Answered by DumpedMessage.
struct DumpMessage {
  static constexpr std::string_view kType = "dump";
  std::string request;
  ClaimReason why = ClaimReason::hang;
  int64_t at_wall_ns = 0;
  std::string node;               // whose claim this is
  std::vector<base::Rank> ranks;  // of the claim
};

struct GatheredNode {
  std::string node;
  std::string host;
  int node_rank = 0;
  NodeStatus status = NodeStatus::complete;
  std::string reason;             // of any other status
  std::vector<base::Rank> ranks;  // expected on the node
  int64_t offset_ns = 0;          // as in NodeInfo
  int64_t uncertainty_ns = -1;
  std::string directory;  // "nodes/<node>" in the run directory; empty: nothing came, or this node itself
  std::string dump;       // the node's own directory of the dump, "dumps/0001-hang"
};

// Elected node only: everything that came lies in the run directory; now make the report.
struct GatheredMessage {
  static constexpr std::string_view kType = "gathered";
  std::string request;
  std::vector<GatheredNode> nodes;  // by node rank; this node included
};

// What all nodes have sent for a verdict lies in the run directory of this node too, if `nodes` is not empty.
// If it is empty, it will not come (`reason`), or, on the node that has judged, handing it out is over.
struct JobFilesMessage {
  static constexpr std::string_view kType = "job_files";
  std::string request;
  std::vector<GatheredNode> nodes;  // as in GatheredMessage, seen from this node
  std::string reason;
};

// A control request from another node.
struct RequestMessage {
  static constexpr std::string_view kType = "request";
  uint64_t id = 0;   // the helper's own number
  std::string node;  // who asks
  std::string verb;
  std::string arguments;  // JSON text
};

// The answer of one node to an AskMessage. After the one with `last` there is none.
struct AnswersMessage {
  static constexpr std::string_view kType = "answers";
  uint64_t id = 0;   // of the AskMessage
  std::string node;  // empty: no node can answer
  int status = 0;    // 504: no answer in time, or the node has died
  std::string body;
  bool last = false;
};

using ToHelper = std::variant<StartMessage, StateMessage, StalledMessage, DumpedMessage, VerdictMessage,
                              ActMessage, AnswerMessage, AskMessage, EndMessage>;
using FromHelper =
    std::variant<JoinedMessage, AloneMessage, FailedMessage, NodesMessage, DumpMessage, GatheredMessage,
                 JobFilesMessage, VerdictMessage, ActMessage, RequestMessage, AnswersMessage>;

// One line with its line feed.
std::string to_line(const ToHelper& message);
std::string to_line(const FromHelper& message);

// A line with or without its line feed. Errors: not JSON, an unknown type, a member of a wrong type, longer
// than kLongestLine. The two sides trust each other: what a helper hands over has passed its limits.
base::Result<ToHelper> to_helper_from_line(std::string_view line);
base::Result<FromHelper> from_helper_from_line(std::string_view line);

}  // namespace xpurun::launcher

namespace xpurun::model {

template <>
inline constexpr std::array<std::string_view, 4> kNames<launcher::ClaimReason> = {"hang", "crash", "death",
                                                                                  "request"};
template <>
inline constexpr std::array<std::string_view, 2> kNames<launcher::DumpOutcome> = {"complete", "failed"};
template <>
inline constexpr std::array<std::string_view, 3> kNames<launcher::JobAction> = {"kill", "restart", "end"};

}  // namespace xpurun::model
