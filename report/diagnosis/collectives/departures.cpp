#include "report/diagnosis/collectives/departures.h"

#include "report/diagnosis/collectives/call_difference.h"
#include "report/diagnosis/collectives/messages.h"
#include "report/diagnosis/collectives/routine.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace xpurun::report {

using model::CallLane;
using model::CollectiveCall;
using model::Departure;
using model::RankSet;

namespace {

constexpr size_t kMajority = 3;  // ranks at least, in all
constexpr size_t kMajorityPercent = 60;

using CallNumber = std::pair<std::string, uint64_t>;  // communicator and number of a collective

// Everything that the rules below ask of the lanes.
struct Marks {
  // The surprises among the collectives, by rank, and all surprises of each lane.
  std::map<CallNumber, std::map<base::Rank, CallInLane>> surprising;
  std::map<const CallLane*, std::vector<Surprise>> surprises;

  [[nodiscard]] const std::vector<Surprise>& of(const CallLane& lane) const {
    static const std::vector<Surprise> kNone;
    const auto found = surprises.find(&lane);
    return found == surprises.end() ? kNone : found->second;
  }
};

Marks marks_of(const model::CollectiveFacts& facts) {
  Marks out;
  // Ranks of one role have equal lanes.
  std::map<std::vector<int>, std::vector<Surprise>> known;
  for (const model::RankCollectives& rank : facts.ranks) {
    for (const CallLane& lane : rank.lanes) {
      if (!is_sound(lane) || rank.rank < 0) {
        continue;
      }
      auto found = known.find(lane.order);
      if (found == known.end()) {
        found = known.emplace(lane.order, surprises(lane.order)).first;
      }
      out.surprises[&lane] = found->second;
      for (const Surprise& s : found->second) {
        const CallLane::Kind& kind = kind_at(lane, s.at);
        if (!model::is_message(kind.call.operation())) {
          out.surprising[{kind.communicator, lane.numbers[s.at]}][rank.rank] = {&kind, &lane, s.at};
        }
      }
    }
  }
  return out;
}

// Whether the call before this one has this communicator and number, too.
bool follow_the_same(const CallInLane& a, const CallInLane& b) {
  if (a.at == 0 || b.at == 0) {
    return a.at == b.at;
  }
  return a.lane->numbers[a.at - 1] == b.lane->numbers[b.at - 1] &&
         kind_at(*a.lane, a.at - 1).communicator == kind_at(*b.lane, b.at - 1).communicator;
}

// The same call of the same line.
bool is_same(const CollectiveCall& a, const CollectiveCall& b) {
  return difference(a, b) == Difference::none && a.where.line == b.where.line && a.where.file == b.where.file;
}

// How the members of a communicator stand to one call that surprised some of them.
struct Others {
  RankSet same;            // made this very call after the same call
  RankSet kept;            // made another call, which is usual for them
  RankSet absent;          // have not come so far
  bool same_shape = true;  // all of `kept` made a call of equal shape
};

Others others_at(const model::CollectiveFacts& facts, const CallNumber& call_number,
                 const std::map<base::Rank, CallInLane>& surprised) {
  Others out;
  const CollectiveCall& call = surprised.begin()->second.kind->call;
  for (const model::RankCollectives& rank : facts.ranks) {
    const auto comm = std::find_if(rank.communicators.begin(), rank.communicators.end(),
                                   [&](const model::Communicator& c) { return c.id == call_number.first; });
    if (comm == rank.communicators.end() || surprised.contains(rank.rank)) {
      continue;
    }
    if (comm->called < call_number.second) {
      out.absent.insert(rank.rank);
    } else if (const CallInLane other = find_in_lanes(rank, call_number.first, call_number.second);
               other.kind != nullptr && is_same(call, other.kind->call) &&
               call.count == other.kind->call.count &&  // of all_to_all too
               follow_the_same(surprised.begin()->second, other)) {
      out.same.insert(rank.rank);
    } else if (other.kind != nullptr) {
      out.kept.insert(rank.rank);
      out.same_shape = out.same_shape && difference(call, other.kind->call) == Difference::none;
    }
  }
  return out;
}

bool is_open(const model::Communicator& comm, const CollectiveCall& message, uint64_t number) {
  return std::any_of(comm.point_to_point.begin(), comm.point_to_point.end(), [&](const CollectiveCall& c) {
    return c.op == message.op && c.peer == message.peer && c.tag == message.tag && c.sequence == number &&
           c.stage != model::CallStage::done;
  });
}

// Whether the rank alone departed with this message: the peer has made the other end as it always does, or
// has not made that end, and the message waits for it.
bool departs(const model::CollectiveFacts& facts, const Marks& marks, const model::RankCollectives& rank,
             const CallLane::Kind& kind, uint64_t number) {
  const auto comm = std::find_if(rank.communicators.begin(), rank.communicators.end(),
                                 [&](const model::Communicator& c) { return c.id == kind.communicator; });
  const auto at = static_cast<size_t>(std::max(kind.call.peer, 0));
  if (comm == rank.communicators.end() || kind.call.peer < 0 || at >= comm->members.size()) {
    return true;
  }
  for (const model::RankCollectives& peer : facts.ranks) {
    for (size_t l = 0; peer.rank == comm->members[at] && l < peer.lanes.size(); ++l) {
      const CallLane& lane = peer.lanes[l];
      for (size_t i = 0; is_sound(lane) && i < lane.order.size(); ++i) {
        const CallLane::Kind& other = kind_at(lane, i);
        if (lane.numbers[i] != number || other.communicator != kind.communicator ||
            other.call.peer != comm->rank || other.call.tag != kind.call.tag ||
            !is_other_end(kind.call, other.call)) {
          continue;
        }
        const std::vector<Surprise>& surprised = marks.of(lane);
        return std::none_of(surprised.begin(), surprised.end(),
                            [&](const Surprise& s) { return s.at <= i && i - s.at <= kRecovery; });
      }
    }
  }
  return is_open(*comm, kind.call, number);
}

bool same_departure(const Departed& a, const Departed& b) {
  const auto same = [](const CollectiveCall* x, const CollectiveCall* y) {
    return x == nullptr || y == nullptr
               ? x == y
               : difference(*x, *y) == Difference::none && x->peer == y->peer &&
                     x->where.file == y->where.file && x->where.line == y->where.line;
  };
  return a.kind == b.kind && same(a.call, b.call) && same(a.expected, b.expected);
}

}  // namespace

bool is_majority(size_t part, size_t all) {
  return all >= kMajority && part * 100 >= all * kMajorityPercent;
}

RankSet common(const RankSet& a, const RankSet& b) {
  return a.minus(a.minus(b));
}

Departures::Departures(const model::CollectiveFacts& facts) {
  const Marks marks = marks_of(facts);
  struct Judged {
    bool departs = false;
    bool same_shape = false;
  };
  std::map<CallNumber, Judged> judged;
  for (const auto& [number, ranks] : marks.surprising) {
    const std::string& op = ranks.begin()->second.kind->call.op;
    const bool makes_group = op == "new_group" || op == "split_group";  // never routine
    const Others others = others_at(facts, number, ranks);
    const size_t rest = others.kept.size() + others.absent.size();
    if (rest == 0) {
      continue;  // all of them at once
    }
    // Of an older record, only some ranks may still know what came before the call.
    const size_t together = ranks.size() + others.same.size();
    if (is_majority(together, together + rest)) {
      together_[number.first].push_back(number.second);
      continue;
    }
    if (makes_group) {
      continue;
    }
    judged[number] = {.departs = true, .same_shape = others.same_shape && others.absent.empty()};
  }
  for (const model::RankCollectives& rank : facts.ranks) {
    for (const CallLane& lane : rank.lanes) {
      for (const Surprise& s : marks.of(lane)) {
        const CallLane::Kind& kind = kind_at(lane, s.at);
        const uint64_t number = lane.numbers[s.at];
        const bool message = model::is_message(kind.call.operation());
        const auto judgement = judged.find({kind.communicator, number});
        if (message ? !departs(facts, marks, rank, kind, number) : judgement == judged.end()) {
          continue;
        }
        const CallLane::Kind& expected = lane.kinds[static_cast<size_t>(s.expected)];
        Departed d{.kind = s.kind,
                   .communicator = kind.communicator,
                   .number = number,
                   .call = &kind.call,
                   .expected = &expected.call,
                   .repeated = s.repeated,
                   .of_call = kind.communicator,
                   .of_expected = expected.communicator,
                   .same_shape =
                       !message && judgement->second.same_shape && expected.communicator == kind.communicator,
                   .fresh = std::find(lane.order.begin(), lane.order.end(), lane.order[s.at]) ==
                            lane.order.begin() + static_cast<ptrdiff_t>(s.at)};
        if (s.kind == Departure::skipped) {
          std::swap(d.call, d.expected);
          std::swap(d.of_call, d.of_expected);
        }
        by_rank_[rank.rank].push_back(d);
      }
    }
  }
  for (auto& [rank, departed] : by_rank_) {
    std::stable_sort(departed.begin(), departed.end(),
                     [](const Departed& a, const Departed& b) { return a.same_shape < b.same_shape; });
  }
}

const Departed* Departures::of(base::Rank rank) const {
  const auto found = by_rank_.find(rank);
  return found == by_rank_.end() ? nullptr : &found->second.front();
}

const Departed* Departures::of_all(const RankSet& ranks) const {
  const Departed* first = nullptr;
  for (const base::Rank rank : ranks.ranks()) {
    const Departed* d = of(rank);
    if (d == nullptr || (first != nullptr && !same_departure(*first, *d))) {
      return nullptr;
    }
    first = first == nullptr ? d : first;
  }
  return first;
}

const Departed* Departures::at(const RankSet& ranks, const std::string& communicator, uint64_t number) const {
  const Departed* first = nullptr;
  for (const base::Rank rank : ranks.ranks()) {
    const auto found = by_rank_.find(rank);
    const auto d = found == by_rank_.end() ? nullptr : [&]() -> const Departed* {
      const auto at = std::find_if(found->second.begin(), found->second.end(), [&](const Departed& one) {
        return one.number == number && one.communicator == communicator;
      });
      return at == found->second.end() ? nullptr : &*at;
    }();
    if (d == nullptr) {
      return nullptr;
    }
    first = first == nullptr ? d : first;
  }
  return first;
}

RankSet Departures::certain() const {
  RankSet out;
  for (const auto& [rank, departed] : by_rank_) {
    if (!departed.front().same_shape) {
      out.insert(rank);
    }
  }
  return out;
}

namespace {

// A call as all ranks may make it, each in a group of its own.
using RoleCall = std::tuple<int, std::string, uint64_t, std::string, std::string, int>;

struct Tail {
  base::Rank rank = base::kNoRank;
  std::vector<RoleCall> calls;
};

RoleCall role_call(const model::RankCollectives& rank, const CallLane::Kind& kind) {
  const auto comm = std::find_if(rank.communicators.begin(), rank.communicators.end(),
                                 [&](const model::Communicator& c) { return c.id == kind.communicator; });
  const CollectiveCall& c = kind.call;
  return {
      comm == rank.communicators.end() ? 0 : comm->size, c.op, c.count, c.dtype, c.where.file, c.where.line};
}

// What each rank has called since the newest call of this communicator that all members have made, or since
// the `back`th call before that one.
std::vector<Tail> tails_since(const model::CollectiveFacts& facts, const std::string& comm, uint64_t back) {
  uint64_t common_number = UINT64_MAX;
  for (const model::RankCollectives& rank : facts.ranks) {
    for (const model::Communicator& c : rank.communicators) {
      common_number = c.id == comm ? std::min(common_number, c.called) : common_number;
    }
  }
  common_number -= std::min(common_number, back);
  std::vector<Tail> out;
  for (const model::RankCollectives& rank : facts.ranks) {
    for (const CallLane& lane : rank.lanes) {
      for (size_t i = lane.order.size(); is_sound(lane) && i > 0; --i) {
        if (kind_at(lane, i - 1).communicator != comm || lane.numbers[i - 1] != common_number ||
            model::is_message(kind_at(lane, i - 1).call.operation())) {
          continue;
        }
        // The common call itself, too: its line may differ, or the ranks may not have left it.
        Tail tail{.rank = rank.rank};
        for (size_t at = i; at < lane.order.size(); ++at) {
          tail.calls.push_back(role_call(rank, kind_at(lane, at)));
        }
        out.push_back(std::move(tail));
        break;
      }
    }
  }
  return out;
}

// The ranks that first make another call than most of those that have made the same ones until then.
RankSet odd_in(std::vector<Tail> tails) {
  RankSet odd;
  for (size_t depth = 0;; ++depth) {
    std::map<RoleCall, size_t> made;
    size_t all = 0;
    for (const Tail& tail : tails) {
      if (depth < tail.calls.size()) {
        ++made[tail.calls[depth]];
        ++all;
      }
    }
    const auto most = std::max_element(made.begin(), made.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most == made.end() || !is_majority(most->second, all)) {
      return odd;
    }
    std::erase_if(tails, [&](const Tail& tail) {
      const bool differs = depth < tail.calls.size() && tail.calls[depth] != most->first;
      if (differs) {
        odd.insert(tail.rank);
      }
      return differs;
    });
  }
}

}  // namespace

RankSet odd_ranks(const model::CollectiveFacts& facts, const RankSet& among) {
  // torch's lanes have the calls of all groups.
  const auto width = [](const model::Communicator& c) {
    return std::pair(c.size, c.source == model::CallSource::torch);
  };
  const model::Communicator* widest = nullptr;
  for (const model::RankCollectives& rank : facts.ranks) {
    for (const model::Communicator& c : rank.communicators) {
      const bool has_all = RankSet::of(c.members).contains(among) && c.called > 0;
      widest = has_all && (widest == nullptr || width(c) > width(*widest)) ? &c : widest;
    }
  }
  // The ranks may have made the newest common call itself too early or too late.
  for (uint64_t back = 0; widest != nullptr && back < 2; ++back) {
    RankSet odd = common(odd_in(tails_since(facts, widest->id, back)), among);
    if (!odd.empty() && odd != among) {
      return odd;
    }
  }
  return {};
}

bool Departures::together(const std::string& communicator, uint64_t number) const {
  const auto found = together_.find(communicator);
  return found != together_.end() &&
         std::find(found->second.begin(), found->second.end(), number) != found->second.end();
}

namespace {

// The calls of a rank on a communicator, by number.
std::map<uint64_t, const CollectiveCall*> calls_on(const model::CollectiveFacts& facts, base::Rank rank,
                                                   const std::string& comm) {
  std::map<uint64_t, const CollectiveCall*> out;
  for (const model::RankCollectives& r : facts.ranks) {
    for (size_t l = 0; r.rank == rank && l < r.lanes.size(); ++l) {
      const CallLane& lane = r.lanes[l];
      for (size_t i = 0; is_sound(lane) && i < lane.order.size(); ++i) {
        const CallLane::Kind& kind = kind_at(lane, i);
        if (kind.communicator == comm && !model::is_message(kind.call.operation())) {
          out[lane.numbers[i]] = &kind.call;
        }
      }
    }
  }
  return out;
}

bool equal(const CollectiveCall& a, const CollectiveCall& b) {
  return is_same(a, b) && !a.where.file.empty();
}

// The number from which on `ahead` is one call further than `behind`; 0 if it is not.
uint64_t shifted_from(const std::map<uint64_t, const CollectiveCall*>& ahead,
                      const std::map<uint64_t, const CollectiveCall*>& behind) {
  if (ahead.empty() || behind.empty()) {
    return 0;
  }
  uint64_t from = 0;
  for (const auto& [number, call] : behind) {
    const auto same = ahead.find(number);
    if (same != ahead.end() && !equal(*call, *same->second)) {
      from = number;
      break;
    }
  }
  for (const auto& [number, call] : behind) {
    const auto next = ahead.find(number + 1);
    if (from == 0 || (number >= from && (next == ahead.end() || !equal(*call, *next->second)))) {
      return 0;
    }
  }
  return from;
}

}  // namespace

uint64_t find_shift_before(const model::CollectiveFacts& facts, const std::string& comm, const RankSet& ahead,
                           const RankSet& behind, uint64_t number) {
  uint64_t out = 0;
  for (const base::Rank first : ahead.ranks()) {
    const std::map<uint64_t, const CollectiveCall*> more = calls_on(facts, first, comm);
    for (const base::Rank second : behind.ranks()) {
      std::map<uint64_t, const CollectiveCall*> less = calls_on(facts, second, comm);
      less.erase(less.lower_bound(number), less.end());
      const uint64_t from = shifted_from(more, less);
      if (from == 0 || (out != 0 && out != from)) {
        return 0;
      }
      out = from;
    }
  }
  return out;
}

std::optional<Shift> find_shift(const model::CollectiveFacts& facts, const CallGroup& group) {
  const uint64_t most = group.most_called();
  Shift out;
  std::map<uint64_t, const CollectiveCall*> ahead;
  std::vector<base::Rank> others;
  for (const Member& m : group.members) {
    if (m.called() == most) {
      out.ahead.insert(m.rank);
      ahead = ahead.empty() ? calls_on(facts, m.rank, group.any->id) : ahead;
    } else if (m.called() + 1 == most) {
      others.push_back(m.rank);
      out.behind.insert(m.rank);
    } else {
      return std::nullopt;
    }
  }
  for (const base::Rank rank : others) {
    const uint64_t from = shifted_from(ahead, calls_on(facts, rank, group.any->id));
    if (from == 0 || (out.number != 0 && out.number != from)) {
      return std::nullopt;
    }
    out.number = from;
  }
  if (others.empty()) {
    return std::nullopt;
  }
  const auto first = std::find_if(facts.ranks.begin(), facts.ranks.end(),
                                  [&](const auto& r) { return out.ahead.contains(r.rank); });
  const CallInLane call = find_in_lanes(*first, group.any->id, out.number);
  out.call = call.kind != nullptr ? &call.kind->call : nullptr;
  return out.call != nullptr ? std::optional(out) : std::nullopt;
}

}  // namespace xpurun::report
