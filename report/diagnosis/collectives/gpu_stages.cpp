#include "report/diagnosis/collectives/gpu_stages.h"

#include "report/diagnosis/collectives/call_difference.h"
#include "report/diagnosis/collectives/called_by.h"
#include "report/diagnosis/collectives/messages.h"

#include <algorithm>
#include <tuple>
#include <vector>

namespace xpurun::report {

using model::CallSource;
using model::CollectiveCall;
using model::RankSet;

namespace {

// The newest call that needs everybody and has ended in one rank: it has run in all, and so have those before
// it.
uint64_t newest_run(const CallGroup& group) {
  uint64_t newest = 0;
  for (const Member& m : group.members) {
    for (size_t i = 0; m.comm != nullptr && i < m.comm->calls.size(); ++i) {
      const CollectiveCall& call = m.comm->calls[i];
      newest = needs_everybody(call) && is_done(m, call.sequence) ? std::max(newest, call.sequence) : newest;
    }
  }
  return newest;
}

// Zero for all members: kernel starts are not recorded.
bool has_starts(const CallGroup& group) {
  return std::any_of(group.members.begin(), group.members.end(),
                     [](const Member& m) { return m.comm != nullptr && m.comm->started > 0; });
}

// The rank's record does not even know the start of a call that has run: it says nothing about the GPU.
bool is_behind(const CallGroup& group, const Member& m, uint64_t run) {
  return m.comm != nullptr && m.comm->started < run && has_starts(group);
}

// The oldest call that a member is known not to have finished; 0 if none.
uint64_t oldest_open(const CallGroup& group) {
  const bool nccl = group.any->source == CallSource::nccl;
  const uint64_t run = nccl ? newest_run(group) : 0;
  uint64_t oldest = 0;
  for (const Member& m : group.members) {
    uint64_t open = open_call(m);
    if (open > 0 && is_behind(group, m, run)) {
      open = std::max(open, run + 1);
      open = open <= m.comm->called ? open : 0;
    }
    oldest = open > 0 && (oldest == 0 || open < oldest) ? open : oldest;
  }
  return oldest;
}

// The oldest call that every known member has entered and at least one is known not to have finished; 0 if
// none.
uint64_t entered_by_all(const CallGroup& group) {
  const uint64_t oldest = oldest_open(group);
  return group.least_called() >= oldest ? oldest : 0;
}

template <typename Predicate>
RankSet ranks_where(const CallGroup& group, Predicate predicate) {
  RankSet out;
  for (const Member& m : group.members) {
    if (m.comm != nullptr && predicate(m)) {
      out.insert(m.rank);
    }
  }
  return out;
}

double age_at(const CallGroup& group, uint64_t sequence) {
  double age = 0;
  for (const Member& m : group.members) {
    const CollectiveCall* call = call_at(m, sequence);
    age = std::max(age, call != nullptr ? call->age_s : 0);
  }
  return age;
}

bool ends_for_all_at_once(const CallGroup& group, uint64_t sequence) {
  return std::any_of(group.members.begin(), group.members.end(), [&](const Member& m) {
    const CollectiveCall* call = call_at(m, sequence);
    return call != nullptr && needs_everybody(*call);
  });
}

struct Stage {
  CallFault fault = CallFault::all_entered;
  RankSet accused;
};

Stage stage_of(const CallGroup& group, uint64_t sequence) {
  const size_t all = group.members.size();
  if (group.any->source == CallSource::nccl) {
    const RankSet entered = ranks_where(group, [&](const Member& m) { return m.comm->launched < sequence; });
    if (!entered.empty()) {
      return {CallFault::not_launched, entered.size() < all ? entered : RankSet()};
    }
    const uint64_t run = newest_run(group);
    if (std::any_of(group.members.begin(), group.members.end(),
                    [&](const Member& m) { return is_behind(group, m, run); })) {
      return {};
    }
    // Zero for all members: kernel starts are not recorded.
    const RankSet queued = ranks_where(group, [&](const Member& m) { return m.comm->started < sequence; });
    if (!queued.empty() && queued.size() < all) {
      return {CallFault::queued, queued};
    }
  }
  const RankSet open = ranks_where(group, [&](const Member& m) { return is_open(m, sequence); });
  const RankSet done = ranks_where(group, [&](const Member& m) { return is_done(m, sequence); });
  if (!done.empty() && ends_for_all_at_once(group, sequence)) {
    return {CallFault::not_finished, open};
  }
  return {};
}

// Which of two calls comes first on a rank's GPU: negative for `a`, 0 if unknown. The rank has entered `a`.
// The ages of one rank's calls come from one clock, which may be as coarse as a tick: the kernel that runs
// decides before them.
int order_in(const Member& a, uint64_t at_a, const Member& b, uint64_t at_b) {
  if (b.called() < at_b) {
    return -1;
  }
  const bool runs_a = a.comm->started >= at_a;
  if (const bool runs_b = b.comm->started >= at_b; runs_a != runs_b) {
    return runs_a ? -1 : 1;
  }
  const CollectiveCall* x = call_at(a, at_a);
  const CollectiveCall* y = call_at(b, at_b);
  if (x == nullptr || y == nullptr || x->age_s < 0 || y->age_s < 0 || x->age_s == y->age_s) {
    return 0;
  }
  return x->age_s > y->age_s ? -1 : 1;
}

// If all members run the kernel, the order of the launches has done no harm.
bool runs_everywhere(const CallGroup& group, uint64_t sequence) {
  return ranks_where(group, [&](const Member& m) { return m.comm->started >= sequence; }).size() ==
         group.members.size();
}

std::optional<CallFinding> launch_order(const CallGroup& a, uint64_t at_a, const CallGroup& b,
                                        uint64_t at_b) {
  RankSet a_first;
  RankSet b_first;
  for (const Member& m : a.members) {
    const Member* other = b.member(m.rank);
    const int order = other != nullptr ? order_in(m, at_a, *other, at_b) : 0;
    if (order != 0) {
      (order < 0 ? a_first : b_first).insert(m.rank);
    }
  }
  if (a_first.empty() || b_first.empty()) {
    return std::nullopt;
  }
  const bool a_most = a_first.size() >= b_first.size();
  const CallGroup& main = a_most ? a : b;
  CallFinding f{.fault = CallFault::order,
                .collective = communicator_of(main, a_most ? at_a : at_b),
                .tie = a_first.size() == b_first.size()};
  f.accused = f.tie ? RankSet() : (a_most ? b_first : a_first);
  f.waiting = a_first;
  f.waiting.insert(b_first);
  f.waiting = f.waiting.minus(f.accused);
  for (const base::Rank rank : a_first.ranks()) {
    add_row(f.collective.calls, row_of(a, rank, *call_at(*a.member(rank), at_a)));
  }
  for (const base::Rank rank : b_first.ranks()) {
    add_row(f.collective.calls, row_of(b, rank, *call_at(*b.member(rank), at_b)));
  }
  arrange(f.collective, f.accused);
  return f;
}

// Threads have no order.
bool in_one_thread(const CallGroup& a, uint64_t at_a, const CallGroup& b, uint64_t at_b) {
  return std::all_of(a.members.begin(), a.members.end(), [&](const Member& m) {
    const Member* other = b.member(m.rank);
    const CollectiveCall* x = call_at(m, at_a);
    const CollectiveCall* y = other != nullptr ? call_at(*other, at_b) : nullptr;
    return other == nullptr || (x != nullptr && y != nullptr && x->thread == y->thread);
  });
}

struct Candidate {
  const CallGroup* group = nullptr;
  uint64_t sequence = 0;
  Stage stage;
  double age_s = 0;
};

// The GPU of each accused rank must finish another call first.
bool waits_behind_another(const Candidate& c, const std::vector<Candidate>& all) {
  return c.stage.fault == CallFault::queued &&
         std::any_of(all.begin(), all.end(), [&](const Candidate& other) {
           return other.group != c.group && other.group->ranks.contains(c.stage.accused) &&
                  other.age_s >= c.age_s;
         });
}

}  // namespace

std::optional<CallFinding> find_launch_order(const std::vector<CallGroup>& groups) {
  for (size_t i = 0; i < groups.size(); ++i) {
    const uint64_t at_a = entered_by_all(groups[i]);
    if (at_a == 0 || groups[i].any->source != CallSource::nccl || runs_everywhere(groups[i], at_a)) {
      continue;
    }
    for (size_t k = 0; k < groups.size(); ++k) {
      // Some may stand in the first call and not have come to the second one.
      const uint64_t at_b = oldest_open(groups[k]);
      if (k == i || at_b == 0 || runs_everywhere(groups[k], at_b)) {
        continue;
      }
      if (auto f = launch_order(groups[i], at_a, groups[k], at_b)) {
        return f;
      }
    }
  }
  return std::nullopt;
}

std::optional<CallFinding> find_call_order(const std::vector<CallGroup>& torch) {
  const auto newest = [](const CallGroup& group) {
    const uint64_t at = group.unseen == 0 ? group.least_called() : 0;
    return ranks_where(group, [&](const Member& m) { return is_done(m, at); }).empty() ? at : 0;
  };
  for (size_t i = 0; i < torch.size(); ++i) {
    for (size_t k = i + 1; k < torch.size(); ++k) {
      const uint64_t at_a = newest(torch[i]);
      const uint64_t at_b = newest(torch[k]);
      if (at_a == 0 || at_b == 0 || !in_one_thread(torch[i], at_a, torch[k], at_b)) {
        continue;
      }
      auto f = launch_order(torch[i], at_a, torch[k], at_b);
      // If the order of the calls before differed too, the program may do so.
      if (f && !launch_order(torch[i], at_a - 1, torch[k], at_b - 1)) {
        return f;
      }
    }
  }
  return std::nullopt;
}

namespace {

using Messages = std::vector<const CollectiveCall*>;

bool meet(const CollectiveCall& a, const CollectiveCall& b) {
  return a.sequence == b.sequence && a.tag == b.tag && is_other_end(a, b);
}

// The messages with this peer that neither GPU may have ended, in the order of their launch: where one is
// known to have ended its side, so has the other.
Messages open_messages(const Member& m, const Member& peer) {
  const auto open_with = [](const CollectiveCall& c, const Member& other) {
    return c.stage == model::CallStage::launched && c.peer == other.comm->rank;
  };
  Messages out;
  const auto& theirs = peer.comm->point_to_point;
  for (const CollectiveCall& c : m.comm->point_to_point) {
    if (open_with(c, peer) && std::any_of(theirs.begin(), theirs.end(), [&](const CollectiveCall& other) {
          return open_with(other, m) && meet(c, other);
        })) {
      out.push_back(&c);
    }
  }
  return out;
}

// The end of the batch at the front, which has one line: its messages have no order.
Messages::iterator end_of_batch(Messages& all) {
  return std::find_if(all.begin(), all.end(),
                      [&](const CollectiveCall* c) { return c->where.line != all.front()->where.line; });
}

bool remove_pair(Messages& a, Messages& b) {
  for (auto x = a.begin(); x != end_of_batch(a); ++x) {
    const auto y =
        std::find_if(b.begin(), end_of_batch(b), [&](const CollectiveCall* c) { return meet(**x, *c); });
    if (y != end_of_batch(b)) {
      a.erase(x);
      b.erase(y);
      return true;
    }
  }
  return false;
}

// The GPUs may have ended messages of which both records know the launch only. Removes those that meet if
// each rank goes through its messages in their order; what is left cannot.
void let_meet(Messages& a, Messages& b) {
  while (!a.empty() && !b.empty() && remove_pair(a, b)) {
  }
}

// Whether `m` has launched the send for this receive of the peer only after its own receive, and not in one
// batch with it, which has one line.
bool sends_after(const Member& m, const CollectiveCall& own, const CollectiveCall& receive,
                 const Member& peer) {
  const auto& all = m.comm->point_to_point;
  return std::any_of(all.begin(), all.end(), [&](const CollectiveCall& c) {
    return c.peer == peer.comm->rank && meet(receive, c) && &c > &own && c.where.line != own.where.line;
  });
}

}  // namespace

std::optional<CallFinding> find_message_order(const std::vector<CallGroup>& torch) {
  for (const CallGroup& group : torch) {
    for (const Member& a : group.members) {
      for (const Member& b : group.members) {
        const bool pair = a.rank < b.rank && a.comm != nullptr && b.comm != nullptr;
        if (!pair) {
          continue;
        }
        Messages of_a = open_messages(a, b);
        Messages of_b = open_messages(b, a);
        let_meet(of_a, of_b);
        const CollectiveCall* x = of_a.empty() ? nullptr : of_a.front();
        const CollectiveCall* y = of_b.empty() ? nullptr : of_b.front();
        const auto receives = [](const CollectiveCall* c) {
          return c != nullptr && c->operation() == model::CallOperation::recv;
        };
        if (!receives(x) || !receives(y) || !sends_after(a, *x, *y, b) || !sends_after(b, *y, *x, a)) {
          continue;
        }
        CallFinding f{.fault = CallFault::not_sent,
                      .collective = communicator_of(group, x->sequence),
                      .waiting = {a.rank, b.rank},
                      .tie = true,
                      .behind = true};
        add_row(f.collective.calls, row_of(group, a.rank, *x));
        add_row(f.collective.calls, row_of(group, b.rank, *y));
        arrange(f.collective, {});
        return f;
      }
    }
  }
  return std::nullopt;
}

std::optional<CallFinding> find_stage_fault(const std::vector<CallGroup>& groups) {
  std::vector<Candidate> candidates;
  for (const CallGroup& group : groups) {
    if (const uint64_t sequence = entered_by_all(group)) {
      candidates.push_back({&group, sequence, stage_of(group, sequence), age_at(group, sequence)});
    }
  }
  const Candidate* best = nullptr;
  const auto rank_of = [&](const Candidate& c) {
    return std::tuple(waits_behind_another(c, candidates), c.stage.fault, -c.age_s);
  };
  for (const Candidate& c : candidates) {
    if (best == nullptr || rank_of(c) < rank_of(*best)) {
      best = &c;
    }
  }
  if (best == nullptr) {
    return std::nullopt;
  }
  CallFinding f{.fault = best->stage.fault,
                .collective = communicator_of(*best->group, best->sequence),
                .accused = best->stage.accused,
                .complete = best->group->unseen == 0};
  f.collective.calls = rows_at(*best->group, best->sequence, true);
  for (const Member& m : best->group->members) {
    if (is_open(m, best->sequence) && !f.accused.contains(m.rank)) {
      f.waiting.insert(m.rank);
    }
  }
  arrange(f.collective, f.accused);
  return f;
}

}  // namespace xpurun::report
