#include "launcher/collect/calls/call_lanes.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <vector>

namespace xpurun::launcher {

namespace {

using model::CallLane;
using model::CallSource;
using model::CallStage;
using model::CollectiveCall;
using model::Communicator;

constexpr size_t kNewestKept = 8;    // collectives that keep their stages and times
constexpr size_t kMostInLane = 512;  // calls
constexpr size_t kMostSizes = 2048;  // per peer, of older calls

// NCCL's record has the time of the system's last tick, at most 10 ms ago; the records are read one after the
// other.
constexpr double kEarlierS = 0.012;
constexpr double kLaterS = 0.003;

bool may_be_same(const Communicator& nccl, const Communicator& torch) {
  return nccl.size == torch.size && nccl.rank == torch.rank &&
         (nccl.members.empty() || torch.members.empty() || nccl.members == torch.members);
}

bool during(const CollectiveCall& inner, const CollectiveCall& outer) {
  return inner.age_s >= 0 && outer.age_s >= 0 && inner.age_s <= outer.age_s + kEarlierS &&
         inner.age_s + kLaterS >= std::max(outer.left_s, 0.0);
}

// Operations of torch that NCCL carries out by other operations.
bool is_composed(std::string_view op) {
  return op == "barrier" || op.find("object") != std::string_view::npos || op.ends_with("_coalesced");
}

bool makes(const CollectiveCall& torch, const CollectiveCall& nccl) {
  if (torch.op == "barrier") {
    return nccl.op == "all_reduce" && nccl.count == 1;
  }
  return is_composed(torch.op) ? torch.op.starts_with(nccl.op)
                               : torch.op == nccl.op && torch.count == nccl.count;
}

void take_line(CollectiveCall& call, const CollectiveCall& from) {
  if (from.op == "barrier") {
    call.op = from.op;  // the size stays: a rank whose record is not joined has the all_reduce
  }
  call.where = from.where;
  call.thread = from.thread;
  call.in_handler = from.in_handler;
}

void add_program_lines(model::RankCollectives& rank) {
  for (Communicator& nccl : rank.communicators) {
    if (nccl.source != CallSource::nccl) {
      continue;
    }
    std::vector<const CollectiveCall*> program;
    for (const Communicator& torch : rank.communicators) {
      if (torch.source == CallSource::torch && may_be_same(nccl, torch)) {
        for (const CollectiveCall& call : torch.calls) {
          program.push_back(&call);
        }
      }
    }
    // Newest first, as both records end now. A call of torch makes one call of NCCL, unless it is composed.
    std::stable_sort(program.begin(), program.end(),
                     [](const CollectiveCall* a, const CollectiveCall* b) { return a->age_s < b->age_s; });
    auto next = program.begin();
    for (auto call = nccl.calls.rbegin(); call != nccl.calls.rend() && next != program.end(); ++call) {
      const auto maker = std::find_if(next, program.end(), [&](const CollectiveCall* p) {
        return during(*call, *p) && makes(*p, *call);
      });
      if (maker != program.end()) {
        take_line(*call, **maker);
        next = (*maker)->op != "barrier" && is_composed((*maker)->op) ? maker : maker + 1;
      }
    }
  }
}

struct Made {
  const Communicator* comm;
  const CollectiveCall* call;
};

// The record of a communicator keeps a number of calls. Before the oldest call of a record that was
// overwritten, the calls of the other communicators alone would show a wrong order.
void drop_incomplete(std::vector<Made>& calls, double oldest_s) {
  std::erase_if(calls, [&](const Made& m) { return m.call->age_s > oldest_s; });
  if (calls.size() > kMostInLane) {
    calls.erase(calls.begin(), calls.end() - static_cast<ptrdiff_t>(kMostInLane));
  }
}

CallLane lane_of(CallSource source, const std::vector<Made>& calls) {
  CallLane lane{.source = source};
  const auto key = [](const std::string& comm, const CollectiveCall& c) {
    return std::tie(comm, c.op, c.reduce, c.count, c.dtype, c.root, c.peer, c.tag, c.where.file, c.where.line,
                    c.where.function, c.in_handler, c.group_ranks);
  };
  std::map<std::tuple<std::string, std::string, std::string, uint64_t, std::string, int, int, int,
                      std::string, int, std::string, bool, std::string>,
           int>
      known;
  for (const Made& m : calls) {
    const auto [kind, fresh] =
        known.try_emplace(key(m.comm->id, *m.call), static_cast<int>(lane.kinds.size()));
    if (fresh) {
      CollectiveCall plain = *m.call;
      plain.sequence = 0;
      plain.stage = CallStage::done;
      plain.age_s = plain.left_s = -1;
      plain.sent.clear();
      plain.received.clear();
      plain.raised = false;
      plain.history = 0;
      lane.kinds.push_back({.communicator = m.comm->id, .call = std::move(plain)});
    }
    lane.order.push_back(kind->second);
    lane.numbers.push_back(m.call->sequence);
  }
  return lane;
}

// torch's times are exact: the calls of a thread in all groups are one lane.
void add_torch_lanes(model::RankCollectives& rank) {
  std::map<std::string, std::vector<Made>> by_thread;
  double oldest_s = 1e18;
  for (const Communicator& comm : rank.communicators) {
    if (comm.source != CallSource::torch) {
      continue;
    }
    const auto cut = [&](const std::vector<CollectiveCall>& calls, uint64_t made) {
      if (!calls.empty() && made > calls.size()) {
        oldest_s = std::min(oldest_s, calls.front().age_s);
      }
      for (const CollectiveCall& call : calls) {
        by_thread[call.thread].push_back({&comm, &call});
      }
    };
    cut(comm.calls, comm.called);
    cut(comm.point_to_point, comm.messages);
  }
  for (auto& [thread, calls] : by_thread) {
    std::stable_sort(calls.begin(), calls.end(),
                     [](const Made& a, const Made& b) { return a.call->age_s > b.call->age_s; });
    drop_incomplete(calls, oldest_s);
    rank.lanes.push_back(lane_of(CallSource::torch, calls));
    rank.lanes.back().thread = thread;
  }
}

// NCCL's times are those of the last tick: only the calls of one communicator have a known order.
void add_nccl_lanes(model::RankCollectives& rank) {
  for (const Communicator& comm : rank.communicators) {
    if (comm.source == CallSource::nccl && comm.comparable && !comm.calls.empty()) {
      std::vector<Made> calls;
      for (const CollectiveCall& call : comm.calls) {
        calls.push_back({&comm, &call});
      }
      rank.lanes.push_back(lane_of(CallSource::nccl, calls));
    }
  }
}

// Calls that have not returned, and asynchronous calls without a later call. Only the program learns, from
// its handles, whether the latter have ended.
void keep_unfinished(std::vector<CollectiveCall>& messages) {
  // The newest one may have ended the rank.
  if (!messages.empty() && messages.back().raised) {
    messages.back().stage = CallStage::launched;
  }
  bool newest = true;
  for (auto m = messages.rbegin(); m != messages.rend(); ++m) {
    newest = newest && m->stage != CallStage::done;
    m->stage = newest || m->stage == CallStage::called ? m->stage : CallStage::done;
  }
  std::erase_if(messages, [](const CollectiveCall& m) { return m.stage == CallStage::done; });
}

// NCCL's record counts the messages that have ended, in the order of the calls: all but the newest ones have.
void end_messages(model::RankCollectives& rank) {
  uint64_t all = 0;
  uint64_t open = 0;
  uint64_t made = 0;
  std::vector<CollectiveCall*> launched;
  for (Communicator& comm : rank.communicators) {
    if (comm.source == CallSource::nccl) {
      all += comm.messages;
      open += comm.messages - std::min(comm.messages, comm.messages_done);
    }
    made += comm.source == CallSource::torch ? comm.messages : 0;
    for (CollectiveCall& message : comm.point_to_point) {
      if (comm.source == CallSource::torch && message.stage == CallStage::launched) {
        launched.push_back(&message);
      }
    }
  }
  // Some of the program's messages are of another backend, such as gloo.
  if (all < made || open >= launched.size()) {
    return;
  }
  std::stable_sort(launched.begin(), launched.end(),
                   [](const CollectiveCall* a, const CollectiveCall* b) { return a->age_s > b->age_s; });
  launched.resize(launched.size() - open);
  for (CollectiveCall* message : launched) {
    message->stage = CallStage::done;
  }
}

// Keeps the newest calls, and of the older ones those with other sizes per peer than the call before. The
// first one with sizes counts too.
void keep_newest(std::vector<CollectiveCall>& calls) {
  if (calls.size() <= kNewestKept) {
    return;
  }
  const auto newest = calls.end() - static_cast<ptrdiff_t>(kNewestKept);
  std::vector<CollectiveCall> kept;
  const CollectiveCall* before = nullptr;
  for (auto call = calls.begin(); call != newest; ++call) {
    if (!call->sent.empty() &&
        (before == nullptr || call->sent != before->sent || call->received != before->received)) {
      kept.push_back(*call);
    }
    before = call->sent.empty() ? before : &*call;
  }
  size_t sizes = 0;
  auto first = kept.end();
  while (first != kept.begin() && sizes + 2 * (first - 1)->sent.size() <= kMostSizes) {
    --first;
    sizes += 2 * first->sent.size();
  }
  kept.erase(kept.begin(), first);
  kept.insert(kept.end(), newest, calls.end());
  calls = std::move(kept);
}

}  // namespace

void arrange_calls(model::RankCollectives& rank) {
  add_program_lines(rank);
  add_torch_lanes(rank);
  add_nccl_lanes(rank);
  end_messages(rank);
  for (Communicator& comm : rank.communicators) {
    keep_newest(comm.calls);
    // MPI's record counts the ended messages of each peer and tag.
    if (comm.source != model::CallSource::mpi) {
      keep_unfinished(comm.point_to_point);
    }
  }
}

}  // namespace xpurun::launcher
