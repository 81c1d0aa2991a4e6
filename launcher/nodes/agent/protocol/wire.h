// The messages between the helpers of a job, as bytes on the server. A message is a kind byte ('J' plain, 'Z'
// zstd), one JSON object, a line feed, and for a part of an archive its bytes. Nothing that comes from the
// server is trusted: decode() refuses messages that are malformed or beyond a limit of node_limits.h.
#pragma once

#include "common/base/result.h"
#include "common/model/rank_set.h"
#include "launcher/nodes/node_messages.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace xpurun::nodes {

using launcher::ActMessage;
using launcher::ClaimReason;
using launcher::DumpOutcome;
using launcher::JobMark;
using launcher::StateMessage;
using launcher::VerdictMessage;

// A node's request for a dump of all nodes. Part of its state until a verdict, so that a lost message or the
// death of the elected node delays the dump and does not lose it.
struct Claim {
  int stall = 0;  // the node's own number, ascending; 0: no claim
  ClaimReason why = ClaimReason::hang;
  std::vector<base::Rank> ranks;

  bool present() const { return stall > 0; }
};

// Published by every node on state.<node>, and by the elected node on elected too.
struct NodeState {
  static constexpr std::string_view kType = "state";
  int node_rank = 0;
  std::string host;
  JobMark mark;
  std::vector<base::Rank> expected;
  bool eligible = false;  // hears the other nodes long enough to be elected
  Claim claim;
  StateMessage state;
};

// Elected node -> all, repeated until every node has answered.
struct DumpCall {
  static constexpr std::string_view kType = "dump";
  std::string request;
  ClaimReason why = ClaimReason::hang;
  std::string claimant;           // node
  std::vector<base::Rank> ranks;  // of the claim
  int64_t at_wall_ns = 0;         // the elected node's clock
};

// An archive is ready. Repeated until the elected node requests chunks or has the archive.
struct Offer {
  static constexpr std::string_view kType = "offer";
  std::string request;
  DumpOutcome status = DumpOutcome::complete;
  std::string reason;     // of a failed dump
  std::string directory;  // of the dump, relative to the run directory
  uint64_t size = 0;      // bytes
  uint64_t chunk = 0;     // bytes of each chunk but the last one
  uint64_t hash = 0;      // XXH3 of the archive

  uint64_t chunks() const { return chunk == 0 ? 0 : (size + chunk - 1) / chunk; }
};

// Elected node -> owner of the archive: send these chunks.
struct Want {
  static constexpr std::string_view kType = "want";
  std::string request;
  std::vector<uint64_t> numbers;
};

struct Part {
  static constexpr std::string_view kType = "part";
  std::string request;
  uint64_t number = 0;
  std::string bytes;  // behind the JSON
};

// Elected node -> owner: the archive is not needed any more.
struct Taken {
  static constexpr std::string_view kType = "taken";
  std::string request;
};

// Answered by a Pong at once.
struct Ping {
  static constexpr std::string_view kType = "ping";
  int64_t sent_ns = 0;  // the sender's own clock; comes back
};

struct Pong {
  static constexpr std::string_view kType = "pong";
  int64_t sent_ns = 0;
  int64_t wall_ns = 0;  // when the ping arrived
};

// A control request. To one node or to all.
struct Ask {
  static constexpr std::string_view kType = "ask";
  uint64_t id = 0;
  std::string verb;
  std::string arguments;
};

struct Answer {
  static constexpr std::string_view kType = "answer";
  uint64_t id = 0;
  int status = 0;
  std::string body;
};

// An action on the whole job. It is repeated, so that a node that was cut off gets it too.
struct JobAct {
  static constexpr std::string_view kType = "act";
  uint64_t id = 0;  // random
  ActMessage act;
};

using Body = std::variant<NodeState, DumpCall, Offer, Want, Part, Taken, Ping, Pong, Ask, Answer, JobAct,
                          VerdictMessage>;

struct Message {
  std::string from;       // node
  uint64_t instance = 0;  // of the sending helper, see StartMessage; distinguishes two nodes of one name
  Body body;
};

std::string encode(const Message& message);
base::Result<Message> decode(std::string_view bytes);

// Letters, digits and "_.:@+-", not a dot first: the name is a directory's too.
bool valid_node_name(std::string_view name);

// The text as one word of a subject; different texts give different words.
std::string subject_word(std::string_view text);

}  // namespace xpurun::nodes
