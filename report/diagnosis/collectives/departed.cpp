#include "report/diagnosis/collectives/departed.h"

#include "report/diagnosis/collectives/called_by.h"

#include <algorithm>

namespace xpurun::report {

using model::Departure;
using model::RankSet;

namespace {

const CallGroup* group_with(const std::vector<CallGroup>& groups, const std::string& id) {
  const auto found =
      std::find_if(groups.begin(), groups.end(), [&](const CallGroup& g) { return g.any->id == id; });
  return found == groups.end() ? nullptr : &*found;
}

model::CalledBy row_of(const CallGroup& group, const RankSet& ranks, uint64_t number,
                       const model::CollectiveCall& call) {
  model::CalledBy row = report::row_of(group, ranks.lowest(), call);
  row.ranks = ranks;
  row.sequence = number;
  return row;
}

void describe(CallFinding& f, const std::vector<CallGroup>& groups, const Departed& d) {
  const CallGroup* group = group_with(groups, d.of_call);
  const CallGroup* usual = group_with(groups, d.of_expected);
  if (group == nullptr || d.call == nullptr) {
    return;
  }
  f.collective.departure = d.kind;
  f.collective.departing = row_of(*group, f.accused, d.number, *d.call);
  if (d.expected != nullptr && usual != nullptr) {
    f.collective.expected = row_of(*usual, f.accused, d.number, *d.expected);
  }
  f.collective.repeated = d.repeated;
}

void accuse(CallFinding& f, const RankSet& ranks) {
  RankSet all = f.accused;
  all.insert(f.waiting);
  f.accused = ranks;
  f.waiting = all.minus(ranks);
  f.tie = false;
  arrange(f.collective, f.accused);
}

// The ranks that share the departing rows of a mismatch.
std::vector<RankSet> sides_of(const CallFinding& f) {
  std::vector<RankSet> out;
  for (const model::CalledBy& row : f.collective.calls) {
    out.push_back(row.ranks);
  }
  return out;
}

// The side whose earlier call has shifted all later ones; null if none has.
const Departed* shifted_side(const std::vector<RankSet>& sides, const CallFinding& f,
                             const model::CollectiveFacts& facts, const Departures& departures,
                             RankSet& out) {
  const std::string& comm = f.collective.id;
  for (size_t i = 0; sides.size() == 2 && i < 2; ++i) {
    const RankSet& ahead = sides[i];
    const RankSet& behind = sides[1 - i];
    const uint64_t from = find_shift_before(facts, comm, ahead, behind, f.collective.sequence);
    const Departed* more = from != 0 ? departures.at(ahead, comm, from) : nullptr;
    const Departed* less = from != 0 ? departures.at(behind, comm, from) : nullptr;
    if ((more == nullptr) != (less == nullptr)) {
      out = more != nullptr ? ahead : behind;
      return more != nullptr ? more : less;
    }
  }
  return nullptr;
}

// The sides of a mismatch: without a clear majority the side that does what it did before is right.
void decide_sides(CallFinding& f, const model::CollectiveFacts& facts, const std::vector<CallGroup>& groups,
                  const Departures& departures) {
  RankSet all = f.accused;
  all.insert(f.waiting);
  if (!f.tie && is_majority(f.waiting.size(), all.size())) {
    return;
  }
  RankSet shifted;
  if (const Departed* d = shifted_side(sides_of(f), f, facts, departures, shifted)) {
    accuse(f, shifted);
    describe(f, groups, *d);
    return;
  }
  RankSet departed = common(all, departures.certain());
  for (const base::Rank rank : all.ranks()) {
    const Departed* d = departures.at({rank}, f.collective.id, f.collective.sequence);
    if (f.fault == CallFault::splits && d != nullptr) {
      departed.insert(rank);  // ranks may pass other sizes, but this one has never done so
    } else if (f.fault == CallFault::order && departed.contains(rank) && departures.of(rank)->fresh) {
      departed = departed.minus({rank});  // all have made both calls: new ones have no usual order
    }
  }
  if (!departed.empty() && departed != all) {
    accuse(f, departed);
  }
}

// Ranks wait in a call that the others have not entered: a call too many, or one too few before.
void decide_waiting(CallFinding& f, const model::CollectiveFacts& facts, const std::vector<CallGroup>& groups,
                    const Departures& departures) {
  const CallGroup* group = group_with(groups, f.collective.id);
  if (group == nullptr) {
    return;
  }
  RankSet waiting;
  RankSet behind;
  RankSet departed;
  for (const Member& m : group->members) {
    (m.called() >= f.collective.sequence ? waiting : behind).insert(m.rank);
    const Departed* d = departures.of(m.rank);
    // All ranks have made a call under the number of the departure, so that the later ones may be shifted. A
    // new call that others have not reached is no departure: they may stand anywhere.
    if (d != nullptr && d->communicator == f.collective.id && d->number <= group->least_called()) {
      departed.insert(m.rank);
    }
  }
  const auto one_too_many = [&] {
    f.fault = CallFault::departed;
    accuse(f, waiting);
    f.waiting = {};  // nobody waits for them
  };
  if (departed.contains(waiting) && common(departed, behind).empty()) {
    one_too_many();
    return;
  }
  const auto shift = find_shift(facts, *group);
  if (!shift || shift->ahead != waiting) {
    return;
  }
  const bool one_less = common(departed, behind) == behind || waiting.size() > behind.size();
  if (!one_less && behind.size() > waiting.size()) {
    one_too_many();
    describe(f, groups,
             {.kind = Departure::extra,
              .communicator = f.collective.id,
              .number = shift->number,
              .call = shift->call,
              .of_call = f.collective.id});
  }
}

}  // namespace

void decide_by_routine(CallFinding& f, const model::CollectiveFacts& facts,
                       const std::vector<CallGroup>& groups, const Departures& departures) {
  if (f.fault == CallFault::not_entered) {
    decide_waiting(f, facts, groups, departures);
  } else if ((is_mismatch(f.fault) && f.fault != CallFault::departed) || f.fault == CallFault::order) {
    decide_sides(f, facts, groups, departures);
  }
  if (f.tie && f.accused.empty()) {
    if (const RankSet odd = odd_ranks(facts, f.waiting); !odd.empty()) {
      accuse(f, odd);
    }
  }
  const Departed* d = departures.of_all(f.accused);
  if (d != nullptr && f.collective.departure == Departure::none) {
    describe(f, groups, *d);
  }
}

}  // namespace xpurun::report
