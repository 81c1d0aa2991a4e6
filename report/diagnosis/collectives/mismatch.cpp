#include "report/diagnosis/collectives/mismatch.h"

#include "report/diagnosis/collectives/call_difference.h"
#include "report/diagnosis/collectives/called_by.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace xpurun::report {

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
    case Difference::none:
      break;
  }
  return CallFault::operation;
}

// Ranks grouped by the compared value, largest side first. Ranks with an unknown value are in no side.
std::vector<RankSet> sides_of(const CallGroup& group, uint64_t sequence, Difference what) {
  std::map<std::string, RankSet> by_value;
  for (const Member& m : group.members) {
    const CollectiveCall* call = call_at(m, sequence);
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
