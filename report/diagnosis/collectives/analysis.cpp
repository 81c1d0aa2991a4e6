#include "report/diagnosis/collectives/analysis.h"

#include "report/diagnosis/collectives/call_group.h"
#include "report/diagnosis/collectives/called_by.h"
#include "report/diagnosis/collectives/departed.h"
#include "report/diagnosis/collectives/gpu_stages.h"
#include "report/diagnosis/collectives/mismatch.h"
#include "report/diagnosis/collectives/wait_graph.h"

#include <algorithm>
#include <string>
#include <utility>

namespace xpurun::report {

using model::CallSource;
using model::CallStage;
using model::CollectiveCall;
using model::CollectiveFacts;
using model::Communicator;

namespace {

std::optional<CallFinding> find_in(const std::vector<CallGroup>& groups, const Departures& departures) {
  // Mismatches first: their ranks also seem to wait for each other.
  if (auto f = find_mismatch(groups)) {
    return f;
  }
  if (auto f = find_message_difference(groups)) {
    return f;
  }
  const WaitGraph graph = wait_graph(groups);
  if (auto f = find_absent(graph)) {
    return f;
  }
  if (auto f = find_stray_message(graph)) {
    return f;
  }
  if (auto f = find_circle(graph, departures)) {
    return f;
  }
  if (auto f = find_launch_order(groups)) {
    return f;
  }
  return find_stage_fault(groups);
}

// NCCL's record has no line of the program. torch's record of the same ranks has.
void add_lines(CallFinding& nccl, const std::vector<CallGroup>& torch) {
  for (const CallGroup& group : torch) {
    if (group.ranks != nccl.collective.ranks) {
      continue;
    }
    for (model::CalledBy& row : nccl.collective.calls) {
      const Member* m = group.member(row.ranks.lowest());
      if (m == nullptr || m->comm == nullptr || !row.where.file.empty()) {
        continue;
      }
      const auto& calls = m->comm->calls;
      const auto newest =
          std::find_if(calls.rbegin(), calls.rend(), [&](const CollectiveCall& c) { return c.op == row.op; });
      if (newest != calls.rend()) {
        row.where = newest->where;
      }
    }
    return;
  }
}

// By NCCL's record of the messages of these ranks.
bool all_ended(const CollectiveFacts& facts, const model::RankSet& ranks) {
  return std::all_of(facts.ranks.begin(), facts.ranks.end(), [&](const model::RankCollectives& r) {
    return !ranks.contains(r.rank) || all_messages_ended(r);
  });
}

std::optional<CallFinding> find_open_fault(const CollectiveFacts& facts) {
  const Departures departures(facts);
  const std::vector<CallGroup> torch = line_up(facts, CallSource::torch);
  const std::vector<CallGroup> nccl = line_up(facts, CallSource::nccl);
  const auto decided = [&](std::optional<CallFinding> f, const std::vector<CallGroup>& groups) {
    if (f) {
      decide_by_routine(*f, facts, groups, departures);
    }
    return f;
  };
  auto by_torch = decided(find_in(torch, departures), torch);
  if (by_torch && is_mismatch(by_torch->fault)) {
    return by_torch;
  }
  // MPI's record has all calls of the program and their ends. A program that uses MPI beside NCCL stands in
  // one of the two.
  if (auto by_mpi = find_in(line_up(facts, CallSource::mpi), departures); by_mpi && !by_torch) {
    return by_mpi;
  }
  auto by_nccl = decided(find_in(nccl, departures), nccl);
  // NCCL also sees the calls that torch makes in C++, such as DDP's.
  const bool nccl_decides =
      by_nccl && (!by_torch || is_mismatch(by_nccl->fault) ||
                  (by_torch->fault > CallFault::order && by_nccl->fault < CallFault::all_entered));
  if (nccl_decides) {
    add_lines(*by_nccl, torch);
  }
  std::optional<CallFinding> found = nccl_decides ? std::move(by_nccl) : std::move(by_torch);
  if (auto order = find_message_order(torch); order && !all_ended(facts, order->waiting)) {
    // Who has not come because of such messages is not to blame.
    const bool explains = !found || found->fault == CallFault::all_entered ||
                          (found->fault == CallFault::not_entered && order->waiting.contains(found->accused));
    if (explains) {
      return order;
    }
  }
  // The GPUs' records may be behind, and NCCL's times have the order of calls only within one communicator.
  if (found && (found->fault == CallFault::all_entered || (found->fault == CallFault::order && found->tie))) {
    auto order = decided(find_call_order(torch), torch);
    return order ? std::move(order) : std::move(found);
  }
  return found;
}

}  // namespace

std::optional<CallFinding> from_origin(std::optional<CallFinding> open,
                                       const std::optional<CallFinding>& silent) {
  if (!open || !silent || silent->collective.source != CallSource::nccl) {
    return open;
  }
  // All calls after the one that was wrong are shifted, and do not tell whose it was. NCCL has at least as
  // many calls as torch.
  const bool earlier = silent->collective.sequence < open->collective.sequence;
  const bool shifts = is_mismatch(open->fault) && !silent->accused.empty() &&
                      silent->collective.ranks == open->collective.ranks &&
                      (earlier || (open->tie && open->accused.empty()));
  if (shifts || open->fault >= CallFault::not_launched) {
    return silent;
  }
  return open;
}

std::optional<CallFinding> find_call_fault(const CollectiveFacts& facts) {
  auto open = find_open_fault(facts);
  const bool may_be_late = open && (is_mismatch(open->fault) || open->fault >= CallFault::not_launched);
  return may_be_late ? from_origin(std::move(open), find_silent_mismatch(facts)) : std::move(open);
}

namespace {

// Shorter delays of a rank say nothing, in seconds.
constexpr double kLateSeconds = 0.1;

// The first of the calls in which the rank has failed: what cleans up may have made another one, in vain too.
CollectiveCall* failed_call(Communicator& c) {
  CollectiveCall* first = nullptr;
  for (auto call = c.calls.rbegin(); call != c.calls.rend() && call->raised; ++call) {
    first = &*call;
  }
  return first != nullptr && c.calls.back().sequence == c.called ? first : nullptr;
}

// Forgets the calls of ranks that made `failed` after it had failed in the other rank.
void forget_late_calls(CollectiveFacts& facts, const std::string& id, const CollectiveCall& failed,
                       FailedCalls& out) {
  for (model::RankCollectives& rank : facts.ranks) {
    for (Communicator& c : rank.communicators) {
      const CollectiveCall* own =
          c.id == id ? call_at({.rank = rank.rank, .comm = &c}, failed.sequence) : nullptr;
      if (own == nullptr || own->age_s < 0 || own->age_s + kLateSeconds >= failed.left_s) {
        continue;
      }
      const double late_s = failed.left_s - own->age_s;
      out.late_s = out.late.empty() ? late_s : std::min(out.late_s, late_s);
      out.late.insert(rank.rank);
      std::erase_if(c.calls, [&](const CollectiveCall& call) { return call.sequence >= failed.sequence; });
      c.called = failed.sequence - 1;
      c.launched = c.started = c.done = std::min(c.done, c.called);
    }
  }
}

}  // namespace

std::optional<FailedCalls> find_fault_of_failure(CollectiveFacts facts, const model::RankSet& failed,
                                                 base::Rank first) {
  FailedCalls out;
  std::vector<std::pair<std::string, CollectiveCall>> in_vain;
  for (model::RankCollectives& rank : facts.ranks) {
    for (Communicator& c : rank.communicators) {
      if (const CollectiveCall* call = rank.rank == first ? failed_call(c) : nullptr) {
        in_vain.emplace_back(c.id, *call);
      }
    }
  }
  for (const auto& [id, call] : in_vain) {
    forget_late_calls(facts, id, call, out);
  }
  bool some = false;
  for (model::RankCollectives& rank : facts.ranks) {
    for (Communicator& c : rank.communicators) {
      if (!failed.contains(rank.rank)) {
        continue;
      }
      if (CollectiveCall* call = failed_call(c)) {
        call->stage = CallStage::called;
        c.launched = c.started = c.done = std::min(c.done, call->sequence - 1);
        some = true;
      }
      if (!c.point_to_point.empty() && c.point_to_point.back().raised) {
        c.point_to_point.back().stage = CallStage::called;
        some = true;
      }
      // The rank has failed in the wait for a call that it did not wait for at once.
      some = some || (rank.rank == first && !c.done_known && !c.calls.empty() &&
                      c.calls.back().stage == CallStage::launched);
    }
  }
  auto finding = some ? find_call_fault(facts) : std::nullopt;
  if (!finding) {
    return std::nullopt;
  }
  out.finding = std::move(*finding);
  return out;
}

const CollectiveCall* call_of_host(const CollectiveFacts& facts, base::Rank rank) {
  std::vector<const model::RankCollectives*> of_rank;
  for (const model::RankCollectives& r : facts.ranks) {
    if (r.rank == rank) {
      of_rank.push_back(&r);
    }
  }
  return call_of_host(of_rank);
}

const CollectiveCall* call_of_host(const std::vector<const model::RankCollectives*>& of_rank) {
  const CollectiveCall* found = nullptr;
  bool found_torch = false;
  for (const model::RankCollectives* r : of_rank) {
    for (const Communicator& c : r->communicators) {
      if (found_torch && c.source != CallSource::torch) {
        continue;
      }
      for (const auto* calls : {&c.calls, &c.point_to_point}) {
        const auto it = std::find_if(calls->rbegin(), calls->rend(), stands_in);
        if (it != calls->rend() && (found == nullptr || (c.source == CallSource::torch && !found_torch))) {
          found = &*it;
          found_torch = c.source == CallSource::torch;
        }
      }
    }
  }
  return found;
}

model::CodeLocation place_of_last_call(const CollectiveFacts& facts, base::Rank rank) {
  const CollectiveCall* call = calls_mpi(facts, rank) ? call_of_host(facts, rank) : nullptr;
  return call != nullptr ? call->where : model::CodeLocation();
}

bool calls_mpi(const model::RankCollectives& calls) {
  return std::any_of(calls.communicators.begin(), calls.communicators.end(),
                     [](const Communicator& c) { return c.source == CallSource::mpi; });
}

bool calls_mpi(const CollectiveFacts& facts, base::Rank rank) {
  return std::any_of(facts.ranks.begin(), facts.ranks.end(),
                     [&](const model::RankCollectives& r) { return r.rank == rank && calls_mpi(r); });
}

bool gpu_has_finished_calls(const CollectiveFacts& facts, base::Rank rank) {
  bool any = false;
  for (const model::RankCollectives& r : facts.ranks) {
    if (r.rank != rank) {
      continue;
    }
    for (const Communicator& c : r.communicators) {
      if (c.source != CallSource::nccl) {
        continue;
      }
      if (!c.done_known || c.done < c.called || c.messages_done < c.messages) {
        return false;
      }
      any = any || c.called > 0;
    }
  }
  return any && call_of_host(facts, rank) == nullptr;
}

bool all_messages_ended(const model::RankCollectives& calls) {
  bool any = false;
  for (const Communicator& c : calls.communicators) {
    if (c.source == CallSource::nccl && c.messages > 0) {
      any = true;
      if (c.messages_done < c.messages) {
        return false;
      }
    }
  }
  return any;
}

double gpu_waits_since(const std::vector<const model::RankCollectives*>& of_rank) {
  double oldest = 0;
  for (const model::RankCollectives* r : of_rank) {
    for (const Communicator& c : r->communicators) {
      const Member m{.rank = r->rank, .comm = &c};
      const uint64_t open = c.source == CallSource::nccl ? open_call(m) : 0;
      const CollectiveCall* call = open != 0 ? call_at(m, open) : nullptr;
      oldest = std::max(oldest, call != nullptr ? call->age_s : 0);
    }
  }
  return oldest;
}

bool has_open_call(const CollectiveFacts& facts, base::Rank rank) {
  for (const model::RankCollectives& r : facts.ranks) {
    if (r.rank != rank) {
      continue;
    }
    for (const Communicator& c : r.communicators) {
      if (open_call({.rank = rank, .comm = &c}) > 0 ||
          std::any_of(c.point_to_point.begin(), c.point_to_point.end(), stands_in)) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace xpurun::report
