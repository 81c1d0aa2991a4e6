#include "report/diagnosis/collectives/mismatch.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/collectives/call_difference.h"
#include "report/diagnosis/collectives/called_by.h"
#include "report/diagnosis/collectives/departed.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace xpurun::report {

using base::tr;
using model::CollectiveCall;
using model::RankSet;

namespace {

CallFault fault_of(Difference what) {
  switch (what) {
    case Difference::members:
      return CallFault::members;
    case Difference::root:
      return CallFault::root;
    case Difference::type:
      return CallFault::type;
    case Difference::size:
      return CallFault::size;
    case Difference::operation:
    case Difference::reduction:
    case Difference::none:
      break;
  }
  return CallFault::operation;
}

// Ranks grouped by the compared value, largest side first. Ranks with an unknown value are in no side.
std::vector<RankSet> sides_of(const CallGroup& group, uint64_t sequence, Difference what) {
  std::map<std::string, RankSet> by_value;
  for (const Member& m : group.members) {
    const CollectiveCall* call = shape_at(m, sequence);
    const std::string value = call != nullptr ? compared_value(*call, what) : kAnyValue;
    if (value != kAnyValue) {
      by_value[value].insert(m.rank);
    }
  }
  std::vector<RankSet> sides;
  for (const auto& [value, ranks] : by_value) {
    sides.push_back(ranks);
  }
  std::sort(sides.begin(), sides.end(), [](const RankSet& a, const RankSet& b) {
    return a.size() != b.size() ? a.size() > b.size() : a.lowest() < b.lowest();
  });
  return sides;
}

// If a call has ended on all ranks, a difference in size was legal after all.
Difference difference_at(const CallGroup& group, uint64_t sequence) {
  const bool over = std::all_of(group.members.begin(), group.members.end(),
                                [&](const Member& m) { return is_done(m, sequence); });
  for (const Difference what :
       {Difference::operation, Difference::members, Difference::root, Difference::type, Difference::size}) {
    const bool counts = !over || what == Difference::operation || what == Difference::root;
    if (counts && sides_of(group, sequence, what).size() > 1) {
      return what;
    }
  }
  return Difference::none;
}

bool at_rest(const CallGroup& group) {
  const uint64_t newest = group.most_called();
  return std::all_of(group.members.begin(), group.members.end(), [&](const Member& m) {
    return m.called() == newest && (newest == 0 || m.comm->done >= newest);
  });
}

// Side 0 has called X then Y, side 1 has called Y then X.
bool is_swapped(const CallGroup& group, uint64_t sequence, const std::vector<RankSet>& sides) {
  if (sides.size() != 2) {
    return false;
  }
  const Member* a = group.member(sides[0].lowest());
  const Member* b = group.member(sides[1].lowest());
  const CollectiveCall* first[] = {call_at(*a, sequence), call_at(*b, sequence)};
  const CollectiveCall* then[] = {call_at(*a, sequence + 1), call_at(*b, sequence + 1)};
  return then[0] != nullptr && then[1] != nullptr && difference(*first[0], *then[1]) == Difference::none &&
         difference(*first[1], *then[0]) == Difference::none;
}

// What one rank sends to another is not what the other expects from it.
struct SplitFault {
  base::Rank from = base::kNoRank;
  base::Rank to = base::kNoRank;
  uint64_t sent = 0;
  uint64_t expected = 0;
};

// The call, or an earlier one with the same sizes: of the older calls, the record has those whose sizes
// differ from those before.
const CollectiveCall* sizes_at(const Member& m, uint64_t sequence) {
  if (const CollectiveCall* call = call_at(m, sequence); call != nullptr || m.called() < sequence) {
    return call;
  }
  const auto& calls = m.comm->calls;
  const auto before = std::find_if(calls.rbegin(), calls.rend(), [sequence](const CollectiveCall& c) {
    return c.sequence < sequence && !c.sent.empty();
  });
  const CollectiveCall* shape = shape_at(m, sequence);
  return before != calls.rend() && shape != nullptr && shape->op == before->op ? &*before : nullptr;
}

std::vector<SplitFault> split_faults(const CallGroup& group, uint64_t sequence) {
  std::vector<SplitFault> out;
  for (const Member& from : group.members) {
    const CollectiveCall* sends = sizes_at(from, sequence);
    for (const Member& to : group.members) {
      const CollectiveCall* receives = sends != nullptr ? sizes_at(to, sequence) : nullptr;
      const auto is_over = [&](const Member& m, const CollectiveCall& call) {
        return is_done(m, sequence) && !call.raised;
      };
      if (receives == nullptr || (is_over(from, *sends) && is_over(to, *receives))) {
        continue;
      }
      const auto there = static_cast<size_t>(std::max(to.comm->rank, 0));
      const auto here = static_cast<size_t>(std::max(from.comm->rank, 0));
      if (there < sends->sent.size() && here < receives->received.size() &&
          sends->sent[there] != receives->received[here]) {
        out.push_back({from.rank, to.rank, sends->sent[there], receives->received[here]});
      }
    }
  }
  return out;
}

// A rank that takes part in all faults, if there are several with different other ranks.
RankSet common_party(const std::vector<SplitFault>& faults) {
  RankSet out{faults.front().from, faults.front().to};
  RankSet all;
  for (const SplitFault& f : faults) {
    const RankSet both{f.from, f.to};
    out = out.minus(out.minus(both));
    all.insert(both);
  }
  return out.size() == 1 && all.size() > 2 ? out : RankSet();
}

std::optional<CallFinding> split_mismatch(const CallGroup& group, uint64_t sequence) {
  const std::vector<SplitFault> faults = split_faults(group, sequence);
  if (faults.empty()) {
    return std::nullopt;
  }
  CallFinding f{.fault = CallFault::splits,
                .collective = communicator_of(group, sequence),
                .accused = common_party(faults),
                .complete = group.unseen == 0};
  f.tie = f.accused.empty();
  const SplitFault& first = faults.front();
  for (const Member& m : group.members) {
    const CollectiveCall* call = shape_at(m, sequence);
    if (call == nullptr || (m.rank != first.from && m.rank != first.to && !f.accused.contains(m.rank))) {
      continue;
    }
    model::CalledBy row = row_of(group, m.rank, *call);
    row.sequence = sequence;
    row.sizes = m.rank == first.from ? tr("{} to rank {}", first.sent, first.to)
                : m.rank == first.to ? tr("{} expected from rank {}", first.expected, first.from)
                                     : std::string();
    f.collective.calls.push_back(std::move(row));
  }
  for (const Member& m : group.members) {
    if (m.called() >= sequence && !f.accused.contains(m.rank)) {
      f.waiting.insert(m.rank);
    }
  }
  arrange(f.collective, f.accused);
  return f;
}

struct Found {
  CallFinding finding;
  double age_s = 0;
};

std::optional<Found> mismatch_of(const CallGroup& group) {
  if (at_rest(group)) {
    return std::nullopt;
  }
  std::set<uint64_t> sequences;
  for (const Member& m : group.members) {
    for (size_t i = 0; m.comm != nullptr && i < m.comm->calls.size(); ++i) {
      sequences.insert(m.comm->calls[i].sequence);
    }
  }
  for (const uint64_t sequence : sequences) {
    const Difference what = difference_at(group, sequence);
    if (what == Difference::none) {
      if (auto splits = split_mismatch(group, sequence)) {
        return Found{.finding = std::move(*splits)};
      }
      continue;
    }
    const std::vector<RankSet> sides = sides_of(group, sequence, what);
    Found found{.finding = {.fault = fault_of(what), .collective = communicator_of(group, sequence)}};
    CallFinding& f = found.finding;
    f.tie = sides[0].size() == sides[1].size();
    f.complete = group.unseen == 0;
    for (size_t i = 0; i < sides.size(); ++i) {
      (i == 0 || f.tie ? f.waiting : f.accused).insert(sides[i]);
    }
    if (what == Difference::operation && is_swapped(group, sequence, sides)) {
      f.fault = CallFault::swapped;
    }
    f.collective.calls = rows_at(group, sequence);
    if (f.fault == CallFault::swapped) {
      for (model::CalledBy& row : rows_at(group, sequence + 1)) {
        f.collective.calls.push_back(std::move(row));
      }
    }
    arrange(f.collective, f.accused);
    for (const Member& m : group.members) {
      const CollectiveCall* call = call_at(m, sequence);
      found.age_s = std::max(found.age_s, call != nullptr ? call->age_s : 0);
    }
    return found;
  }
  return std::nullopt;
}

}  // namespace

namespace {

using ByNumber = std::map<uint64_t, const CollectiveCall*>;

// The collectives of a rank on a communicator; empty if several threads make them.
ByNumber calls_of_lane(const model::RankCollectives& rank, const std::string& comm) {
  ByNumber out;
  size_t lanes = 0;
  for (const model::CallLane& lane : rank.lanes) {
    bool any = false;
    for (size_t i = 0; i < std::min(lane.order.size(), lane.numbers.size()); ++i) {
      const auto kind = static_cast<size_t>(lane.order[i]);
      if (kind < lane.kinds.size() && lane.kinds[kind].communicator == comm &&
          !is_message(lane.kinds[kind].call.operation())) {
        out[lane.numbers[i]] = &lane.kinds[kind].call;
        any = true;
      }
    }
    lanes += any ? 1 : 0;
  }
  return lanes == 1 ? out : ByNumber();
}

// torch gathers and scatters tensors of different sizes too.
bool sizes_may_differ(const CollectiveCall& call) {
  return call.op.starts_with("all_gather") || call.op.starts_with("reduce_scatter") || call.op == "gather" ||
         call.op == "scatter";
}

Difference never_legal(const CollectiveCall& a, const CollectiveCall& b, model::CallSource source) {
  const Difference what = difference(a, b);
  const bool size = what == Difference::size && source == model::CallSource::torch && sizes_may_differ(a);
  if (what == Difference::none && differ(a, b, Difference::reduction)) {
    return Difference::reduction;
  }
  return size || what == Difference::members ? Difference::none : what;
}

// The calls of ranks under one number.
using ByRank = std::map<base::Rank, const CollectiveCall*>;

// A rank has made a group with a member that passed another list to new_group. Ranks that each pass the list
// of their own group agree.
bool groups_differ(const ByRank& calls) {
  bool equal = true;
  for (const auto& [rank, call] : calls) {
    equal = equal && call->group_ranks == calls.begin()->second->group_ranks;
  }
  if (equal) {
    return false;
  }
  std::map<base::Rank, std::set<int64_t>> lists;
  for (const auto& [rank, call] : calls) {
    for (const std::string_view member : base::split(call->group_ranks, ',')) {
      if (const auto number = base::parse_int(member); number && call->op == "new_group") {
        lists[rank].insert(*number);
      }
    }
  }
  return std::any_of(lists.begin(), lists.end(), [&](const auto& mine) {
    return mine.second.contains(mine.first) &&
           std::any_of(lists.begin(), lists.end(), [&](const auto& other) {
             return mine.second.contains(other.first) && other.second != mine.second;
           });
  });
}

// Accuses all but the largest side, or nobody if there is none.
void take_sides(CallFinding& f, const std::map<std::string, RankSet>& by_value) {
  const auto most = std::max_element(by_value.begin(), by_value.end(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
  f.tie = std::count_if(by_value.begin(), by_value.end(),
                        [&](const auto& side) { return side.second.size() == most->second.size(); }) > 1;
  for (const auto& [value, side] : by_value) {
    (f.tie || value == most->first ? f.waiting : f.accused).insert(side);
  }
}

// A difference that has left the records: the first call that all have in common is equal, and the calls up
// to it are not. Calls from `end` on may be open.
std::optional<CallFinding> lost_in(const CallGroup& group, uint64_t end) {
  std::map<uint64_t, std::map<base::Rank, const CollectiveCall*>> by_number;
  size_t ranks = 0;
  for (const Member& m : group.members) {
    for (size_t i = 0; m.comm != nullptr && i < m.comm->calls.size(); ++i) {
      const CollectiveCall& call = m.comm->calls[i];
      if (call.history != 0 && call.sequence < end) {
        by_number[call.sequence][m.rank] = &call;
      }
    }
    ranks += m.comm != nullptr ? 1 : 0;
  }
  const auto common = std::find_if(by_number.begin(), by_number.end(),
                                   [&](const auto& at) { return at.second.size() == ranks; });
  if (ranks < 2 || common == by_number.end()) {
    return std::nullopt;
  }
  CallFinding f{.fault = CallFault::operation,
                .collective = communicator_of(group, common->first),
                .lost = true,
                .complete = group.unseen == 0};
  std::map<std::string, RankSet> by_history;
  for (const auto& [rank, call] : common->second) {
    if (never_legal(*common->second.begin()->second, *call, group.any->source) != Difference::none) {
      return std::nullopt;
    }
    by_history[fmt::to_string(call->history)].insert(rank);
    add_row(f.collective.calls, row_of(group, rank, *call));
  }
  if (by_history.size() < 2) {
    return std::nullopt;
  }
  take_sides(f, by_history);
  arrange(f.collective, f.accused);
  return f;
}

// What differs between the calls of ranks, and is never legal.
Difference difference_of(const ByRank& calls, model::CallSource source) {
  for (const auto& [rank, call] : calls) {
    if (const Difference what = never_legal(*calls.begin()->second, *call, source);
        what != Difference::none) {
      return what;
    }
  }
  return groups_differ(calls) ? Difference::members : Difference::none;
}

CallFinding differing(const CallGroup& group, uint64_t number, const ByRank& calls, Difference what) {
  CallFinding f{
      .fault = fault_of(what), .collective = communicator_of(group, number), .complete = group.unseen == 0};
  std::map<std::string, RankSet> by_value;
  for (const auto& [rank, call] : calls) {
    by_value[compared_value(*call, what)].insert(rank);
    model::CalledBy row = row_of(group, rank, *call);
    row.sequence = number;
    add_row(f.collective.calls, std::move(row));
  }
  take_sides(f, by_value);
  arrange(f.collective, f.accused);
  return f;
}

std::optional<CallFinding> silent_in(const CallGroup& group) {
  std::map<uint64_t, ByRank> by_number;
  size_t ranks = 0;
  uint64_t end = UINT64_MAX;  // calls from here on may be open
  for (const Member& m : group.members) {
    const ByNumber calls = m.comm != nullptr ? calls_of_lane(*m.record, group.any->id) : ByNumber();
    if (!calls.empty()) {
      end = std::min(end, m.comm->called + (is_done(m, m.comm->called) ? 1 : 0));
      ++ranks;
    }
    for (const auto& [number, call] : calls) {
      by_number[number][m.rank] = call;
    }
  }
  if (ranks < 2) {
    return std::nullopt;
  }
  for (auto at = by_number.begin(); at != by_number.lower_bound(end); ++at) {
    if (const Difference what = difference_of(at->second, group.any->source); what != Difference::none) {
      return differing(group, at->first, at->second, what);
    }
  }
  return lost_in(group, end);
}

}  // namespace

std::optional<CallFinding> find_silent_mismatch(const model::CollectiveFacts& facts,
                                                const std::vector<model::VerdictCollective>& known) {
  for (const model::CallSource source : {model::CallSource::torch, model::CallSource::nccl}) {
    const std::vector<CallGroup> groups = line_up(facts, source);
    for (const CallGroup& group : groups) {
      const bool is_known = std::any_of(known.begin(), known.end(), [&](const auto& k) {
        return k.id == group.any->id || (k.source != source && k.ranks == group.ranks);
      });
      if (auto f = is_known ? std::nullopt : silent_in(group)) {
        if (!f->lost) {
          decide_by_routine(*f, facts, groups, Departures(facts));
        }
        return f;
      }
    }
  }
  return std::nullopt;
}

std::optional<CallFinding> find_mismatch(const std::vector<CallGroup>& groups) {
  std::optional<Found> oldest;
  for (const CallGroup& group : groups) {
    auto found = mismatch_of(group);
    if (found && (!oldest || found->age_s > oldest->age_s)) {
      oldest = std::move(found);
    }
  }
  return oldest ? std::optional(std::move(oldest->finding)) : std::nullopt;
}

}  // namespace xpurun::report
