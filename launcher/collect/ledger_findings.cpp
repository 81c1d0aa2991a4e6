#include "launcher/collect/ledger_findings.h"

#include "common/base/strings.h"
#include "launcher/collect/op_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace xpurun::launcher {

namespace {

struct Member {
  base::Rank rank;
  const CommTotals* comm;
};

bool is_comparable(const CommTotals& comm) {
  const bool used = comm.state == static_cast<uint32_t>(wire::CommState::live) ||
                    comm.state == static_cast<uint32_t>(wire::CommState::finalized);
  return used && comm.flags == 0 && comm.called > 0;
}

const CollectiveSignature* signature_of(const CommTotals& comm, uint64_t sequence) {
  for (const CollectiveSignature& s : comm.last) {
    if (s.sequence == sequence) {
      return &s;
    }
  }
  return nullptr;
}

std::string describe(const CollectiveSignature& s) {
  wire::OpKey key{};
  key.api = s.api;
  const std::string root = s.root >= 0 ? fmt::format(" with root {}", s.root) : "";
  return fmt::format("{} of {} {}{}", collective_name(key), s.count, nccl_type_name(s.type), root);
}

std::string plural(const std::vector<base::Rank>& ranks) {
  std::vector<std::string> numbers;
  for (const base::Rank rank : ranks) {
    numbers.push_back(fmt::format("{}", rank));
  }
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", base::join(numbers, ", "));
}

std::string_view have(const std::vector<base::Rank>& ranks) {
  return ranks.size() == 1 ? "has" : "have";
}

// The rank waits for the end of a collective. Nothing is known about collectives launched after `marked`.
bool is_unfinished(const CommTotals& c) {
  return c.done < c.marked || (c.marked == 0 && c.done < c.launched);
}

template <typename Predicate>
std::vector<base::Rank> ranks_where(const std::vector<Member>& members, Predicate predicate) {
  std::vector<base::Rank> out;
  for (const Member& m : members) {
    if (predicate(*m.comm)) {
      out.push_back(m.rank);
    }
  }
  return out;
}

// Ranks whose call with this sequence number differs from the most common call; empty if all agree.
std::vector<base::Rank> dissenters(const std::vector<Member>& members, uint64_t sequence) {
  std::map<std::string, std::vector<base::Rank>> by_call;
  for (const Member& m : members) {
    if (const CollectiveSignature* s = signature_of(*m.comm, sequence)) {
      by_call[describe(*s) + fmt::format(" {}", s->op)].push_back(m.rank);
    }
  }
  if (by_call.size() < 2) {
    return {};
  }
  const auto most = std::max_element(by_call.begin(), by_call.end(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
  std::vector<base::Rank> out;
  for (auto it = by_call.begin(); it != by_call.end(); ++it) {
    if (it != most) {
      out.insert(out.end(), it->second.begin(), it->second.end());
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string operation_of(const std::vector<Member>& members, uint64_t sequence) {
  for (const Member& m : members) {
    if (const CollectiveSignature* s = signature_of(*m.comm, sequence)) {
      return describe(*s);
    }
  }
  return "";
}

void judge(const std::vector<Member>& members, LedgerFinding& f) {
  uint64_t newest = 0;
  uint64_t finished = UINT64_MAX;
  for (const Member& m : members) {
    newest = std::max(newest, m.comm->called);
    finished = std::min(finished, m.comm->done);
  }
  const auto at_rest = [&](const CommTotals& c) {
    return c.called == newest && c.launched == newest && !is_unfinished(c);
  };
  f.sequence = newest;
  // An earlier difference causes later ones, so the oldest difference is reported.
  const uint64_t oldest = newest > wire::kSignatures ? newest - wire::kSignatures + 1 : 1;
  for (uint64_t s = std::max(oldest, finished); s <= newest && f.ranks.empty(); ++s) {
    f.ranks = dissenters(members, s);
    f.sequence = f.ranks.empty() ? f.sequence : s;
  }
  if (!f.ranks.empty()) {
    f.kind = "mismatch";
    return;
  }
  if (ranks_where(members, at_rest).size() == members.size()) {
    return;
  }
  f.ranks = ranks_where(members, [&](const CommTotals& c) { return c.called < newest; });
  if (!f.ranks.empty()) {
    f.kind = "not_called";
    // The first collective that one of them is missing.
    for (const Member& m : members) {
      f.sequence = std::min(f.sequence, m.comm->called + 1);
    }
    return;
  }
  f.ranks = ranks_where(members, [&](const CommTotals& c) { return c.launched < newest; });
  if (!f.ranks.empty()) {
    f.kind = "not_launched";
    return;
  }
  // If no end was ever seen, there were no completion events, so `done` says nothing.
  const auto seen_no_end = [](const CommTotals& c) { return c.done == 0; };
  if (ranks_where(members, seen_no_end).size() < members.size()) {
    f.ranks = ranks_where(members, is_unfinished);
    f.kind = "not_done";
  }
}

std::string sentence_of(const LedgerFinding& f) {
  const std::string what = fmt::format("collective {} of communicator {}{}", f.sequence, f.communicator,
                                       f.operation.empty() ? "" : fmt::format(" ({})", f.operation));
  if (f.kind == "not_called") {
    return fmt::format("{} {} not called {}, which others have", plural(f.ranks), have(f.ranks), what);
  }
  if (f.kind == "mismatch") {
    return fmt::format("{} called a different operation than the others as {}", plural(f.ranks), what);
  }
  if (f.kind == "not_launched") {
    return fmt::format("{} {} called {} but not launched it", plural(f.ranks), have(f.ranks), what);
  }
  return fmt::format("{} {} not finished {} on the GPU", plural(f.ranks), have(f.ranks), what);
}

int urgency(const LedgerFinding& f) {
  return f.kind == "mismatch" ? 0 : (f.kind == "not_called" ? 1 : (f.kind == "not_launched" ? 2 : 3));
}

}  // namespace

std::vector<LedgerFinding> ledger_findings(const std::vector<RankTiming>& ranks) {
  std::map<uint64_t, std::vector<Member>> by_identity;
  for (const RankTiming& rank : ranks) {
    for (const CommTotals& comm : rank.comms) {
      if (is_comparable(comm)) {
        by_identity[comm.identity].push_back({rank.rank, &comm});
      }
    }
  }
  std::vector<LedgerFinding> found;
  for (const auto& [identity, members] : by_identity) {
    const CommTotals& any = *members.front().comm;
    LedgerFinding f;
    f.communicator = any.name.empty() ? fmt::format("{:016x}", identity) : fmt::format("\"{}\"", any.name);
    f.size = any.nranks;
    judge(members, f);
    if (!f.ranks.empty()) {
      f.operation = operation_of(members, f.sequence);
      f.sentence = sentence_of(f);
      found.push_back(std::move(f));
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return urgency(a) < urgency(b); });
  return found;
}

}  // namespace xpurun::launcher
