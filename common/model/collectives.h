// CollectiveFacts: dumps/<n>-<why>/collectives.json, schema "xpurun.collectives/1". The calls that every rank
// of this node had made, launched and finished on each communicator at the time of a dump. All sources share
// one form: NCCL's public calls (the preload library's ledger), torch.distributed (the Python bootstrap),
// locals of frames. Input of the diagnosis. Pure data; the supervisor writes it.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/model/verdict.h"
#include "common/model/vocabulary.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

inline constexpr std::string_view kCollectivesSchema = "xpurun.collectives/1";
// In a dump's directory; after a death also in the run directory, with the state at the end of each rank.
inline constexpr std::string_view kCollectivesFile = "collectives.json";
// The same schema, in the run directory: the calls at the moment at which different calls were found to have
// ended (find_silent_mismatch()).
inline constexpr std::string_view kMismatchFile = "mismatch.json";

// The tag of a receive that takes messages of any tag.
inline constexpr int kAnyTag = -1;

// One call of a collective or of a point-to-point operation.
struct CollectiveCall {
  // Collectives: number on the communicator, from 1, equal on all ranks. Point-to-point: number among the
  // calls of this operation with this peer and this tag, from 1; 0: a receive from any rank or with any tag,
  // which has not got its message yet.
  uint64_t sequence = 0;
  // One word per operation for all sources: all_reduce, reduce, broadcast, all_gather, reduce_scatter,
  // gather, scatter, all_to_all, barrier, send, recv; any other operation keeps the source's name.
  std::string op;
  std::string name;    // of the function that the program called, MPI_Ssend; empty: the operation's
  std::string reduce;  // sum, product, min, max, avg; empty: no reduction or unknown
  uint64_t count = 0;  // elements as passed by the program; 0: unknown or none (barrier)
  std::string dtype;   // float32, bfloat16, ...; empty: unknown
  int root = -1;       // rank in the communicator; -1: the operation has no root
  int peer = -1;       // send, recv: rank in the communicator; -1: any (MPI)
  int tag = 0;         // send, recv: 0 also where the backend ignores tags; kAnyTag
  bool exclusive =
      false;  // win_lock, win_unlock, win_flush: no other rank may hold the lock; `peer`: on which rank
  CallStage stage = CallStage::called;
  double age_s = -1;        // seconds from the call to the dump; negative: unknown
  double left_s = -1;       // seconds from its return to the dump; negative: not yet, or unknown
  CodeLocation where;       // the program's line; empty: unknown
  std::string thread;       // of the program, by name; empty: unknown
  bool in_handler = false;  // a handler of a signal made the call
  bool raised = false;      // the call has ended by an exception
  std::string group_ranks;  // new_group, split_group: the list of ranks; empty: all, or unknown
  // all_to_all: elements to and from each rank of the communicator; empty: unknown.
  std::vector<uint64_t> sent;
  std::vector<uint64_t> received;
  // NCCL: hash of all collectives up to this one, equal on all ranks that have made equal calls; 0: unknown.
  uint64_t history = 0;

  CallOperation operation() const { return operation_of(op); }
  bool takes_any_peer() const { return peer < 0 && operation() == CallOperation::recv; }
};

// A lock of an MPI window that a rank holds.
struct HeldLock {
  int target = -1;  // rank in the communicator; -1: all
  bool exclusive = false;
};

struct Communicator {
  CallSource source = CallSource::nccl;
  std::string id;    // equal on all ranks of the communicator
  std::string name;  // given by the program; may be empty
  int rank = -1;     // this process's rank in the communicator
  int size = 0;
  std::vector<base::Rank> members;  // global ranks by rank in the communicator; empty: unknown
  // Numbers of collectives so far.
  uint64_t called = 0;
  uint64_t launched = 0;
  uint64_t started = 0;
  uint64_t done = 0;
  bool done_known = false;  // `done` counts all calls up to the newest launched one
  // False: calls were missed, or the id differs between ranks.
  bool comparable = true;
  std::vector<CollectiveCall> calls;  // the latest collectives, by sequence number
  // False: the sources of some messages are not known, so that messages of equal numbers need not belong to
  // each other.
  bool messages_known = true;
  // Point-to-point calls so far; for NCCL also the number of finished ones.
  uint64_t messages = 0;
  uint64_t messages_done = 0;
  // Unfinished calls, and launched calls whose end is unknown; oldest first. MPI: also the latest call with
  // each peer and tag, as done.
  std::vector<CollectiveCall> point_to_point;
  bool window = false;          // stands for an MPI window, whose epochs are its messages
  std::vector<HeldLock> locks;  // of that window
};

// The latest calls in the order in which the program made them, in little space: a program makes few kinds of
// calls, again and again.
struct CallLane {
  struct Kind {
    std::string communicator;  // its id
    CollectiveCall call;       // without number, stage, times and sizes per rank
  };
  CallSource source = CallSource::torch;
  // torch: the calls of one thread in all groups. NCCL: the collectives of one communicator.
  std::string thread;
  std::vector<Kind> kinds;
  std::vector<int> order;         // per call the index in `kinds`
  std::vector<uint64_t> numbers;  // per call its CollectiveCall::sequence
};

// What a process has passed to init_process_group, in which it waits for the other ranks.
struct Joining {
  base::Rank rank = base::kNoRank;  // the argument, which another process may have passed too
  int size = 0;                     // number of ranks; 0: the process is not in init_process_group
  std::string place;                // where the ranks meet: "127.0.0.1:29500", a file; empty: unknown

  bool empty() const { return size == 0; }
};

struct RankCollectives {
  base::Rank rank = base::kNoRank;
  base::Pid pid = 0;
  std::vector<Communicator> communicators;
  std::vector<CallLane> lanes;
  Joining joining;
  uint64_t steps = 0;  // that the rank has ended so far; 0: none were seen
};

struct CollectiveFacts {
  std::vector<RankCollectives> ranks;

  // The calls of this process, which are added if there are none yet.
  RankCollectives& of(base::Rank rank, base::Pid pid);
  bool empty() const { return ranks.empty(); }
};

// Requests of MPI that a rank has started and not completed, nor waits for.
struct RequestsLeft {
  base::Rank rank = base::kNoRank;
  size_t count = 0;
  CollectiveCall first;  // its peer and root: global ranks where known
};
std::vector<RequestsLeft> requests_left(const CollectiveFacts& facts);

nlohmann::ordered_json to_json(const CollectiveFacts& facts);
// An error means that the content does not match the schema; load_*() errors also name the path.
base::Result<CollectiveFacts> collective_facts_from_json(const nlohmann::json& j);
base::Result<CollectiveFacts> load_collective_facts(const std::string& path);

// Adds a rank's calls that came after `facts` were taken, up to the newest call that any rank of the
// communicator had made by then. The dump at a death comes a moment before the slowest ranks enter the call
// in which the rank died. Ages become those at the moment of `facts`, 0 for calls that came later.
void add_later_calls(CollectiveFacts& facts, const CollectiveFacts& later);

// Adds ranks of which nothing is known at the moment of `facts`, from calls that were recorded `later`: as
// far as the newest call that any rank of the communicator had made by then. That newest call counts as not
// finished, because a rank may have left it through the failure that is explained. Communicators that `facts`
// does not have are left out.
void add_unseen_ranks(CollectiveFacts& facts, CollectiveFacts later);

}  // namespace xpurun::model
