#include "report/diagnosis/collectives/called_by.h"

#include <algorithm>
#include <tuple>

namespace xpurun::report {

using model::CalledBy;
using model::RankSet;
using model::VerdictCollective;

VerdictCollective communicator_of(const CallGroup& group, uint64_t sequence) {
  return {.source = group.any->source,
          .id = group.any->id,
          .name = group.any->name,
          .kind = group.kind,
          .ranks = group.ranks,
          .size = std::max(group.any->size, static_cast<int>(group.ranks.size())),
          .sequence = sequence};
}

CalledBy row_of(const CallGroup& group, base::Rank rank, const model::CollectiveCall& call) {
  const auto global = [&](int r) {
    const base::Rank known = r >= 0 ? group.global_rank(r) : base::kNoRank;
    return known >= 0 ? known : r;
  };
  CalledBy row{.communicator = group.any->name.empty() ? group.any->id : group.any->name,
               .sequence = call.sequence,
               .op = call.op,
               .name = call.name,
               .count = call.count,
               .dtype = call.dtype,
               .reduce = call.reduce,
               .root = global(call.root),
               .peer = global(call.peer),
               .tag = group.any->window ? 0 : call.tag,  // of an epoch's message, no tag of the program
               .stage = call.stage,
               .where = call.where,
               .thread = call.thread == "MainThread" ? std::string() : call.thread,
               .in_handler = call.in_handler,
               .group_ranks = call.group_ranks};
  row.ranks.insert(rank);
  return row;
}

CalledBy row_of_absent(const RankSet& ranks) {
  return {.ranks = ranks};
}

namespace {

void add_row_of_stage(std::vector<CalledBy>& rows, CalledBy row, bool by_stage) {
  const auto key = [](const CalledBy& r) {
    return std::tie(r.communicator, r.sequence, r.op, r.name, r.count, r.dtype, r.reduce, r.root, r.peer,
                    r.tag, r.where.file, r.where.line, r.where.function, r.thread, r.in_handler,
                    r.group_ranks);
  };
  const auto same = std::find_if(rows.begin(), rows.end(), [&](const CalledBy& r) {
    return key(r) == key(row) && (!by_stage || r.stage == row.stage);
  });
  if (same == rows.end()) {
    rows.push_back(std::move(row));
  } else {
    same->ranks.insert(row.ranks);
    same->stage = std::min(same->stage, row.stage);
  }
}

}  // namespace

void add_row(std::vector<CalledBy>& rows, CalledBy row) {
  add_row_of_stage(rows, std::move(row), false);
}

std::vector<CalledBy> rows_at(const CallGroup& group, uint64_t sequence, bool by_stage) {
  std::vector<CalledBy> rows;
  RankSet absent;
  for (const Member& m : group.members) {
    if (const model::CollectiveCall* call = shape_at(m, sequence)) {
      CalledBy row = row_of(group, m.rank, *call);
      row.sequence = sequence;
      add_row_of_stage(rows, std::move(row), by_stage);
    } else if (m.called() < sequence) {
      absent.insert(m.rank);
    }
  }
  if (!absent.empty()) {
    rows.push_back(row_of_absent(absent));
  }
  return rows;
}

void arrange(VerdictCollective& collective, const RankSet& accused) {
  const auto order = [&](const CalledBy& r) {
    return std::tuple(!accused.contains(r.ranks), -static_cast<int64_t>(r.ranks.size()), r.ranks.lowest());
  };
  std::stable_sort(collective.calls.begin(), collective.calls.end(),
                   [&](const CalledBy& a, const CalledBy& b) { return order(a) < order(b); });
  for (const CalledBy& row : collective.calls) {
    if (!row.op.empty() && (collective.op.empty() || !accused.contains(row.ranks))) {
      collective.op = row.op;
      if (!accused.contains(row.ranks)) {
        return;
      }
    }
  }
}

}  // namespace xpurun::report
