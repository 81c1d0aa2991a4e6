#include "launcher/collect/calls/collective_facts.h"

#include "common/model/timing/op_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

namespace xpurun::launcher {

namespace {

using model::CallStage;
using model::CollectiveCall;
using model::Communicator;

constexpr std::pair<wire::Api, std::string_view> kOps[] = {
    {wire::Api::ncclAllReduce, "all_reduce"}, {wire::Api::ncclReduce, "reduce"},
    {wire::Api::ncclBroadcast, "broadcast"},  {wire::Api::ncclBcast, "broadcast"},
    {wire::Api::ncclAllGather, "all_gather"}, {wire::Api::ncclReduceScatter, "reduce_scatter"},
    {wire::Api::ncclGather, "gather"},        {wire::Api::ncclScatter, "scatter"},
    {wire::Api::ncclAlltoAll, "all_to_all"},
};

std::string op_word(uint16_t api) {
  const auto* it = std::find_if(std::begin(kOps), std::end(kOps),
                                [&](const auto& op) { return static_cast<uint16_t>(op.first) == api; });
  if (it != std::end(kOps)) {
    return std::string(it->second);
  }
  wire::OpKey key{};
  key.api = api;
  return std::string(model::collective_name(key));
}

// ncclDataType_t in torch's words.
std::string dtype_word(uint8_t type) {
  constexpr std::array<std::string_view, 12> kNames = {"int8",    "uint8",    "int32",         "uint32",
                                                       "int64",   "uint64",   "float16",       "float32",
                                                       "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2"};
  return type < kNames.size() ? std::string(kNames[type]) : fmt::format("type{}", type);
}

// ncclRedOp_t; larger numbers are user-defined operations.
std::string reduce_word(const std::string& op, uint8_t reduce) {
  constexpr std::array<std::string_view, 5> kNames = {"sum", "product", "max", "min", "avg"};
  const bool reduces = op == "all_reduce" || op == "reduce" || op == "reduce_scatter";
  return reduces && reduce < kNames.size() ? std::string(kNames[reduce]) : std::string();
}

CallStage stage_of(const CommTotals& comm, uint64_t sequence) {
  return sequence <= comm.done       ? CallStage::done
         : sequence <= comm.started  ? CallStage::started
         : sequence <= comm.launched ? CallStage::launched
                                     : CallStage::called;
}

CollectiveCall call_of(const CommTotals& comm, const CollectiveSignature& s, base::MonoNs now) {
  CollectiveCall call{.sequence = s.sequence,
                      .op = op_word(s.api),
                      .count = s.count,
                      .dtype = dtype_word(s.type),
                      .stage = stage_of(comm, s.sequence),
                      .history = s.hash};
  call.reduce = reduce_word(call.op, s.op);
  const bool rooted =
      call.op == "reduce" || call.op == "broadcast" || call.op == "gather" || call.op == "scatter";
  call.root = rooted ? s.root : -1;
  const auto called = static_cast<base::MonoNs>(s.called_ns);
  call.age_s = s.called_ns > 0 && called <= now ? base::ns_to_s(now - called) : -1;
  return call;
}

Communicator communicator_of(const CommTotals& comm, base::MonoNs now) {
  Communicator out{.source = model::CallSource::nccl,
                   .id = fmt::format("{:016x}", comm.identity),
                   .name = comm.name,
                   .rank = comm.rank,
                   .size = comm.nranks,
                   .called = comm.called,
                   .launched = comm.launched,
                   .started = comm.started,
                   .done = comm.done,
                   .done_known = comm.done_known(),
                   .comparable = comm.flags == 0,
                   .messages = comm.messages_launched,
                   .messages_done = comm.messages_done};
  for (const CollectiveSignature& s : comm.last) {
    out.calls.push_back(call_of(comm, s, now));
  }
  return out;
}

bool in_use(const CommTotals& comm) {
  return comm.live() || comm.state == static_cast<uint32_t>(wire::CommState::finalized);
}

// Sets the global ranks of communicators whose processes are all on this node.
void add_members(model::CollectiveFacts& facts) {
  std::map<std::string, std::map<int, base::Rank>> members;
  for (const model::RankCollectives& r : facts.ranks) {
    for (const Communicator& c : r.communicators) {
      if (c.comparable) {
        members[c.id][c.rank] = r.rank;
      }
    }
  }
  for (model::RankCollectives& r : facts.ranks) {
    for (Communicator& c : r.communicators) {
      const auto& known = members[c.id];
      if (c.comparable && c.size > 0 && known.size() == static_cast<size_t>(c.size) &&
          known.begin()->first == 0 && known.rbegin()->first == c.size - 1) {
        for (const auto& [index, rank] : known) {
          c.members.push_back(rank);
        }
      }
    }
  }
}

}  // namespace

model::CollectiveFacts collective_facts(const std::vector<RankTiming>& ranks, base::MonoNs now) {
  model::CollectiveFacts facts;
  for (const RankTiming& t : ranks) {
    model::RankCollectives r{.rank = t.rank, .pid = t.pid};
    for (const CommTotals& comm : t.comms) {
      if (in_use(comm)) {
        r.communicators.push_back(communicator_of(comm, now));
      }
    }
    if (t.rank != base::kNoRank && !r.communicators.empty()) {
      facts.ranks.push_back(std::move(r));
    }
  }
  add_members(facts);
  return facts;
}

}  // namespace xpurun::launcher
