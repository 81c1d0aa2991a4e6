#include "tests/unit/diagnosis/calls.h"

#include "report/diagnosis/diagnose.h"
#include "tests/unit/diagnosis/job.h"

#include <algorithm>
#include <tuple>

namespace xpurun::report::testing {

using model::CallStage;
using model::CollectiveCall;
using model::Communicator;

namespace {

constexpr uint64_t kKept = 8;  // newest calls to keep

CollectiveCall named(std::string op, int line) {
  CollectiveCall call;
  call.op = std::move(op);
  call.age_s = 10;
  call.where = {.function = "step", .file = "/home/u/train.py", .line = line};
  return call;
}

}  // namespace

CollectiveCall operation(std::string op, int line, uint64_t count) {
  CollectiveCall call = named(std::move(op), line);
  call.count = count;
  call.dtype = count > 0 ? "float32" : "";
  return call;
}

CollectiveCall all_reduce(uint64_t count, int line, std::string dtype) {
  CollectiveCall call = operation("all_reduce", line, count);
  call.dtype = std::move(dtype);
  return call;
}

CollectiveCall broadcast(int root, int line, uint64_t count) {
  CollectiveCall call = operation("broadcast", line, count);
  call.root = root;
  return call;
}

CollectiveCall send(int peer, uint64_t number, int line, uint64_t count) {
  CollectiveCall call = operation("send", line, count);
  call.peer = peer;
  call.sequence = number;
  return call;
}

CollectiveCall recv(int peer, uint64_t number, int line, uint64_t count) {
  CollectiveCall call = send(peer, number, line, count);
  call.op = "recv";
  return call;
}

Communicator& Calls::comm(base::Rank rank, const Group& group) {
  auto r =
      std::find_if(facts.ranks.begin(), facts.ranks.end(), [&](const auto& x) { return x.rank == rank; });
  if (r == facts.ranks.end()) {
    facts.ranks.push_back({.rank = rank, .pid = 100 + rank});
    r = facts.ranks.end() - 1;
  }
  const auto c = std::find_if(r->communicators.begin(), r->communicators.end(), [&](const Communicator& x) {
    return x.id == "id " + group.name && x.source == group.source;
  });
  if (c != r->communicators.end()) {
    return *c;
  }
  const auto at = std::find(group.members.begin(), group.members.end(), rank);
  r->communicators.push_back({.source = group.source,
                              .id = "id " + group.name,
                              .name = group.name,
                              .rank = static_cast<int>(at - group.members.begin()),
                              .size = static_cast<int>(group.members.size()),
                              .members = group.members,
                              .done_known = true});
  return r->communicators.back();
}

Calls& Calls::past(const Group& group, uint64_t n) {
  for (const base::Rank rank : group.members) {
    for (uint64_t i = 0; i < n; ++i) {
      finishes(rank, group, all_reduce());
    }
  }
  return *this;
}

void Calls::remember(base::Rank rank, const Group& group, const CollectiveCall& call) {
  const std::string id = comm(rank, group).id;
  auto& lanes = std::find_if(facts.ranks.begin(), facts.ranks.end(), [&](const auto& x) {
                  return x.rank == rank;
                })->lanes;
  // NCCL has a lane for each communicator.
  auto lane = std::find_if(lanes.begin(), lanes.end(), [&](const model::CallLane& l) {
    return l.source == group.source &&
           (l.source == model::CallSource::nccl ? l.kinds[0].communicator == id : l.thread == call.thread);
  });
  lane = lane == lanes.end() ? lanes.insert(lane, {.source = group.source, .thread = call.thread}) : lane;
  CollectiveCall plain = call;
  plain.sequence = 0;
  plain.stage = CallStage::done;
  plain.age_s = -1;
  const auto key = [](const CollectiveCall& c) {
    return std::tuple(c.op, c.count, c.dtype, c.reduce, c.root, c.peer, c.tag, c.where.line);
  };
  auto kind = std::find_if(lane->kinds.begin(), lane->kinds.end(), [&](const model::CallLane::Kind& k) {
    return k.communicator == id && key(k.call) == key(plain);
  });
  if (kind == lane->kinds.end()) {
    kind = lane->kinds.insert(kind, {.communicator = id, .call = std::move(plain)});
  }
  lane->order.push_back(static_cast<int>(kind - lane->kinds.begin()));
  lane->numbers.push_back(call.sequence);
}

Calls& Calls::enters(base::Rank rank, const Group& group, CollectiveCall call) {
  Communicator& c = comm(rank, group);
  call.sequence = ++c.called;
  remember(rank, group, call);
  c.calls.push_back(std::move(call));
  if (c.calls.size() > kKept) {
    c.calls.erase(c.calls.begin());
  }
  return *this;
}

Calls& Calls::enter(const std::vector<base::Rank>& ranks, const Group& group, const CollectiveCall& call) {
  for (const base::Rank rank : ranks) {
    enters(rank, group, call);
  }
  return *this;
}

Calls& Calls::finishes(base::Rank rank, const Group& group, CollectiveCall call) {
  call.stage = CallStage::done;
  enters(rank, group, std::move(call));
  Communicator& c = comm(rank, group);
  c.launched = c.started = c.done = c.called;
  return *this;
}

Calls& Calls::message(base::Rank rank, const Group& group, CollectiveCall call) {
  remember(rank, group, call);
  comm(rank, group).point_to_point.push_back(std::move(call));
  return *this;
}

Calls& Calls::passes(base::Rank rank, const Group& group, const CollectiveCall& call) {
  remember(rank, group, call);
  ++comm(rank, group).messages;
  return *this;
}

Calls& Calls::reaches(base::Rank rank, const Group& group, CallStage stage) {
  Communicator& c = comm(rank, group);
  c.calls.back().stage = stage;
  c.launched = stage >= CallStage::launched ? c.called : c.launched;
  c.started = stage >= CallStage::started ? c.called : c.started;
  c.done = stage >= CallStage::done ? c.called : c.done;
  return *this;
}

model::Verdict hang(const Calls& calls, int ranks) {
  Job job(ranks);
  job.all(in_all_reduce()).hang_dump();
  job.facts.collectives = calls.facts;
  return diagnose(job.facts);
}

model::RankSet renumbered(const model::RankSet& ranks, const std::vector<base::Rank>& to) {
  model::RankSet out;
  for (const base::Rank r : ranks.ranks()) {
    out.insert(to[static_cast<size_t>(r)]);
  }
  return out;
}

}  // namespace xpurun::report::testing
