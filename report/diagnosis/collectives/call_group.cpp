#include "report/diagnosis/collectives/call_group.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace xpurun::report {

using model::CallLane;
using model::CallSource;
using model::CallStage;
using model::CollectiveCall;
using model::Communicator;
using model::CommunicatorKind;
using model::RankSet;

namespace {

// The distance between neighbouring members, or 0 if it varies: ranks 1, 3, 5 have stride 2.
int stride_of(const RankSet& ranks) {
  const std::vector<base::Rank> list = ranks.ranks();
  const int stride = list.size() > 1 ? list[1] - list[0] : 0;
  for (size_t i = 2; i < list.size(); ++i) {
    if (list[i] - list[i - 1] != stride) {
      return 0;
    }
  }
  return stride;
}

bool only_point_to_point(const CallGroup& group) {
  const auto sends = [](const Member& m) { return m.comm != nullptr && !m.comm->point_to_point.empty(); };
  return group.most_called() == 0 && std::any_of(group.members.begin(), group.members.end(), sends);
}

// The words of a name such as "mesh_tp", "TENSOR_MODEL_PARALLEL_GROUP" or "dp-shard".
std::set<std::string> words_of_name(std::string_view name) {
  std::set<std::string> words;
  std::string word;
  for (const char c : name) {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!word.empty()) {
      words.insert(std::exchange(word, {}));
    }
  }
  words.insert(word);
  return words;
}

// The kind by the communicator's name; unknown if the name suggests no kind or several.
CommunicatorKind kind_by_name(std::string_view name) {
  constexpr std::pair<std::string_view, CommunicatorKind> kWords[] = {
      {"tp", CommunicatorKind::tensor},   {"tensor", CommunicatorKind::tensor},
      {"dp", CommunicatorKind::data},     {"data", CommunicatorKind::data},
      {"ddp", CommunicatorKind::data},    {"fsdp", CommunicatorKind::data},
      {"hsdp", CommunicatorKind::data},   {"replicate", CommunicatorKind::data},
      {"pp", CommunicatorKind::pipeline}, {"pipeline", CommunicatorKind::pipeline},
  };
  const std::set<std::string> words = words_of_name(name);
  std::set<CommunicatorKind> kinds;
  for (const auto& [word, kind] : kWords) {
    if (words.contains(std::string(word))) {
      kinds.insert(kind);
    }
  }
  return kinds.size() == 1 ? *kinds.begin() : CommunicatorKind::unknown;
}

// Launchers usually number tensor-parallel ranks next to each other, then data-parallel ranks, then pipeline
// stages. This is a guess.
void guess_kinds(std::vector<CallGroup>& groups, const RankSet& world) {
  std::set<int> strides;
  for (const CallGroup& g : groups) {
    if (g.ranks != world && stride_of(g.ranks) > 0) {
      strides.insert(stride_of(g.ranks));
    }
  }
  for (CallGroup& g : groups) {
    const int stride = stride_of(g.ranks);
    if (const CommunicatorKind named = kind_by_name(g.any->name); named != CommunicatorKind::unknown) {
      g.kind = named;
    } else if (g.ranks == world && g.ranks.size() > 1) {
      g.kind = CommunicatorKind::world;
    } else if (only_point_to_point(g)) {
      g.kind = CommunicatorKind::pipeline;
    } else if (stride == 1) {
      g.kind = CommunicatorKind::tensor;
    } else if (stride > 1) {
      const bool outermost = strides.size() > 2 && stride == *strides.rbegin();
      g.kind = outermost ? CommunicatorKind::pipeline : CommunicatorKind::data;
    }
  }
}

struct Lines {
  std::map<base::Rank, const Communicator*> comms;
  std::map<base::Rank, const model::RankCollectives*> records;
  RankSet incomparable;
};

CallGroup group_of(const Lines& lines, const RankSet& recording) {
  CallGroup group{.any = lines.comms.begin()->second};
  for (const auto& [rank, comm] : lines.comms) {
    group.ranks.insert(rank);
    for (const base::Rank member : comm->members) {
      if (member >= 0) {
        group.ranks.insert(member);
      }
    }
    if (comm->comparable) {
      group.members.push_back({rank, comm, lines.records.at(rank)});
    } else if (std::any_of(comm->calls.begin(), comm->calls.end(), stands_in) ||
               std::any_of(comm->point_to_point.begin(), comm->point_to_point.end(), stands_in)) {
      group.standing.insert(rank);
    }
  }
  for (const base::Rank rank : group.ranks.ranks()) {
    if (recording.contains(rank) && !lines.comms.contains(rank)) {
      group.members.push_back({rank, nullptr});
    }
  }
  std::sort(group.members.begin(), group.members.end(),
            [](const Member& a, const Member& b) { return a.rank < b.rank; });
  const size_t size = std::max<size_t>(group.ranks.size(), std::max(group.any->size, 0));
  group.unseen = size - group.members.size();
  return group;
}

}  // namespace

bool stands_in(const CollectiveCall& call) {
  return call.stage == CallStage::called;
}

const Member* CallGroup::member(base::Rank rank) const {
  const auto it = std::lower_bound(members.begin(), members.end(), rank,
                                   [](const Member& m, base::Rank r) { return m.rank < r; });
  return it == members.end() || it->rank != rank ? nullptr : &*it;
}

base::Rank CallGroup::global_rank(int rank_in_group) const {
  for (const Member& m : members) {
    if (m.comm != nullptr && rank_in_group >= 0 &&
        static_cast<size_t>(rank_in_group) < m.comm->members.size()) {
      return m.comm->members[static_cast<size_t>(rank_in_group)];
    }
  }
  for (const Member& m : members) {
    if (m.comm != nullptr && m.comm->rank == rank_in_group) {
      return m.rank;
    }
  }
  return base::kNoRank;
}

uint64_t CallGroup::most_called() const {
  uint64_t most = 0;
  for (const Member& m : members) {
    most = std::max(most, m.called());
  }
  return most;
}

uint64_t CallGroup::least_called() const {
  uint64_t least = members.empty() ? 0 : UINT64_MAX;
  for (const Member& m : members) {
    least = std::min(least, m.called());
  }
  return least;
}

std::vector<CallGroup> line_up(const model::CollectiveFacts& facts, CallSource source) {
  std::map<std::string, Lines> by_id;
  RankSet recording;
  for (const model::RankCollectives& r : facts.ranks) {
    for (const Communicator& c : r.communicators) {
      if (c.source == source && r.rank >= 0) {
        recording.insert(r.rank);
        by_id[c.id].comms.emplace(r.rank, &c);
        by_id[c.id].records.emplace(r.rank, &r);
      }
    }
  }
  std::vector<CallGroup> groups;
  RankSet world = recording;
  for (const auto& [id, lines] : by_id) {
    groups.push_back(group_of(lines, recording));
    world.insert(groups.back().ranks);
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const CallGroup& a, const CallGroup& b) { return a.ranks < b.ranks; });
  guess_kinds(groups, world);
  return groups;
}

const CollectiveCall* call_at(const Member& member, uint64_t sequence) {
  if (member.comm == nullptr) {
    return nullptr;
  }
  const auto& calls = member.comm->calls;
  const auto it = std::find_if(calls.rbegin(), calls.rend(),
                               [&](const CollectiveCall& c) { return c.sequence == sequence; });
  return it == calls.rend() ? nullptr : &*it;
}

const CollectiveCall* shape_at(const Member& member, uint64_t sequence) {
  const CollectiveCall* call = call_at(member, sequence);
  const bool overwritten = call == nullptr && member.comm != nullptr && sequence <= member.comm->called;
  if (!overwritten || member.record == nullptr) {
    return call;
  }
  const CallInLane found = find_in_lanes(*member.record, member.comm->id, sequence);
  return found.kind != nullptr ? &found.kind->call : nullptr;
}

bool is_done(const Member& member, uint64_t sequence) {
  const CollectiveCall* call = call_at(member, sequence);
  return member.comm != nullptr &&
         (sequence <= member.comm->done || (call != nullptr && call->stage == CallStage::done));
}

bool is_open(const Member& member, uint64_t sequence) {
  if (member.comm == nullptr || sequence == 0 || sequence > member.comm->called ||
      is_done(member, sequence)) {
    return false;
  }
  // If the end of calls is not recorded, only a rank whose host is inside a call is known to be in it.
  const CollectiveCall* call = call_at(member, sequence);
  return member.comm->done_known || (call != nullptr && call->stage == CallStage::called);
}

uint64_t open_call(const Member& member) {
  if (member.comm == nullptr || member.comm->done >= member.comm->called) {
    return 0;
  }
  uint64_t oldest =
      member.comm->done_known && is_open(member, member.comm->done + 1) ? member.comm->done + 1 : UINT64_MAX;
  for (const CollectiveCall& c : member.comm->calls) {
    if (c.sequence < oldest && is_open(member, c.sequence)) {
      oldest = c.sequence;
    }
  }
  return oldest == UINT64_MAX ? 0 : oldest;
}

bool is_sound(const CallLane& lane) {
  return lane.order.size() == lane.numbers.size() &&
         std::all_of(lane.order.begin(), lane.order.end(),
                     [&](int kind) { return kind >= 0 && static_cast<size_t>(kind) < lane.kinds.size(); });
}

const CallLane::Kind& kind_at(const CallLane& lane, size_t at) {
  return lane.kinds[static_cast<size_t>(lane.order[at])];
}

CallInLane find_in_lanes(const model::RankCollectives& rank, const std::string& comm, uint64_t number) {
  for (const CallLane& lane : rank.lanes) {
    if (!is_sound(lane)) {
      continue;
    }
    for (size_t i = lane.order.size(); i > 0; --i) {
      const CallLane::Kind& kind = kind_at(lane, i - 1);
      if (lane.numbers[i - 1] == number && kind.communicator == comm &&
          !model::is_message(kind.call.operation())) {
        return {&kind, &lane, i - 1};
      }
    }
  }
  return {};
}

}  // namespace xpurun::report
