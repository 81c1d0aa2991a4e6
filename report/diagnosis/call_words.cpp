#include "report/diagnosis/call_words.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/collectives.h"
#include "report/diagnosis/wording.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::report {

using base::tr;
using model::CalledBy;
using model::CallOperation;
using model::Departure;
using model::RankSet;
using model::VerdictCollective;

namespace {

constexpr size_t kMostRows = 4;

bool is_message(const CalledBy& row) {
  return row.peer >= 0 || model::is_lock_call(row.op) || model::is_message(model::operation_of(row.op));
}

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](std::string_view piece) { return text.starts_with(piece); });
}

// What another rank has to call so that this message comes, or goes.
std::string_view counterpart_of(const CalledBy& row) {
  if (row.op != "recv") {
    return "recv";
  }
  if (starts_with_any(row.name, {"MPI_Win_wait", "MPI_Win_test", "MPI_Win_post"})) {
    return "MPI_Win_complete";
  }
  if (starts_with_any(row.name, {"MPI_Win_", "MPI_Put", "MPI_Get", "MPI_Acc", "MPI_Fetch", "MPI_Compare"})) {
    return "MPI_Win_post";
  }
  return row.name.find("MPI_Precv_init") != std::string::npos ? "MPI_Pready" : "send";
}

std::string quoted(const std::string& name) {
  return tr("group \"{}\"", base::sanitize(name));
}

// "rank 1 called X where ranks 0,2-3 called Y and rank 4 called Z": the rows of the accused, or else the
// first row, before "where". Ranks that have not entered the call are left out.
std::string sides(const std::vector<CalledBy>& rows, std::string_view joint, const RankNamer& names,
                  const RankSet& accused = {}) {
  std::string out;
  size_t shown = 0;
  bool after_accused = false;
  RankSet rest;
  for (const CalledBy& row : rows) {
    if (!made_a_call(row)) {
      continue;
    }
    if (shown == kMostRows) {
      rest.insert(row.ranks);
      continue;
    }
    const bool of_accused = accused.contains(row.ranks);
    const bool turns = accused.empty() ? shown == 1 : after_accused && !of_accused;
    after_accused = of_accused;
    out += tr("{}{} called {}",
              shown == 0 ? ""
              : turns    ? std::string(joint)
                         : tr(" and "),
              names(row.ranks), call_at_line(row));
    ++shown;
  }
  return rest.empty() ? out : tr("{} and {} others", out, rank_words(rest));
}

// The rows of one sequence number. Of the two rows of a swapped pair only the first counts.
std::vector<CalledBy> rows_of(const VerdictCollective& c, uint64_t sequence) {
  std::vector<CalledBy> out;
  std::copy_if(c.calls.begin(), c.calls.end(), std::back_inserter(out),
               [&](const CalledBy& row) { return row.sequence == sequence; });
  return out;
}

std::string what_differs(CallFault fault) {
  switch (fault) {
    case CallFault::members:
      return tr("different lists of ranks");
    case CallFault::splits:
      return tr("sizes that do not fit each other");
    case CallFault::root:
      return tr("different roots");
    case CallFault::type:
      return tr("different data types");
    case CallFault::size:
      return tr("different sizes");
    default:
      return tr("different operations");
  }
}

std::string number_of(const CalledBy& row) {
  return tr("call {} of {}", row.sequence, quoted(row.communicator));
}

// "; before, rank 1 had called X there 14 times"
std::string routine_text(const CallFinding& f, const RankNamer& names) {
  const VerdictCollective& c = f.collective;
  if (c.departure == Departure::extra && c.departing.sequence < c.sequence && c.departing.peer < 0) {
    return tr("; {} had made one call more: {}, {}", names(f.accused), call_at_line(c.departing),
              number_of(c.departing));
  }
  const bool other = c.departure == Departure::other || c.departure == Departure::extra;
  return !other || c.repeated == 0 || !c.expected.entered()
             ? std::string()
             : tr("; before, {} had called {} there {} times", names(f.accused), call_at_line(c.expected),
                  c.repeated);
}

// What the accused have done that they had never done before.
std::string departed_text(const CallFinding& f, const RankNamer& names) {
  const VerdictCollective& c = f.collective;
  const std::string who = names(f.accused);
  const std::string made = call_at_line(c.departing);
  const std::string usual = call_at_line(c.expected);
  const std::string number = c.departing.peer < 0 ? ", " + number_of(c.departing) : std::string();
  switch (c.departure) {
    case Departure::extra:
      return tr("{} made one call more than the other ranks: {}{}", who, made, number);
    case Departure::skipped:
      return tr("{} left out {}, called there {} times before, and went on with {}", who, made, c.repeated,
                usual);
    case Departure::order:
      return tr("{} called {} before {}{}; {} times before it was the other way round", who, made, usual,
                number, c.repeated);
    default:
      return tr("{} called {}{}, where it had called {} {} times before", who, made, number, usual,
                c.repeated);
  }
}

std::string mismatch_text(const CallFinding& f, const RankNamer& names) {
  const VerdictCollective& c = f.collective;
  if (f.lost) {
    return f.tie ? tr("ranks have made different calls before {}; the records have lost them", call_number(c))
                 : tr("{} made another call than {} before {}; the records have lost that call",
                      names(f.accused), names(f.waiting), call_number(c));
  }
  return f.tie ? tr("ranks have made different calls in {}, with {}: {}", call_number(c),
                    what_differs(f.fault), sides(c.calls, tr(", "), names))
               : tr("{}, {}{}", sides(c.calls, tr(" where "), names, f.accused), call_number(c),
                    routine_text(f, names));
}

std::string swapped_text(const CallFinding& f, const RankNamer& names) {
  const VerdictCollective& c = f.collective;
  const std::string calls = tr("calls {} and {} of {}", c.sequence, c.sequence + 1, group_text(c));
  const std::vector<CalledBy> first = rows_of(c, c.sequence);
  return tr("ranks made {} in opposite order: {} first", calls, sides(first, tr(", "), names));
}

std::string order_text(const CallFinding& f, const RankNamer& names) {
  std::string out;
  for (size_t i = 0; i < f.collective.calls.size() && i < kMostRows; ++i) {
    const CalledBy& row = f.collective.calls[i];
    out += tr("{}{} called {} on {} first", i == 0 ? "" : tr(", "), names(row.ranks), call_at_line(row),
              quoted(row.communicator));
  }
  return tr("ranks use communicators in opposite order and wait for each other: {}", out);
}

std::string message_text(const CallFinding& f, const RankNamer& names) {
  const std::vector<CalledBy>& rows = f.collective.calls;
  const bool several = std::any_of(rows.begin(), rows.end(), [&](const CalledBy& row) {
    return is_message(row) && row.communicator != rows.front().communicator;
  });
  std::string met;
  std::string others;
  for (const CalledBy& row : rows) {
    if (is_message(row)) {
      met += fmt::format("{}{} {} {}{}", met.empty() ? "" : tr(", "), names(row.ranks),
                         f.fault == CallFault::message ? tr("called")
                         : row.ranks.size() == 1       ? tr("waits in")
                                                       : tr("wait in"),
                         call_at_line(row),
                         several ? tr(" on communicator \"{}\"", base::sanitize(row.communicator)) : "");
      if (!row.holders.empty()) {
        met += tr(" for a lock that {} {}", names(row.holders), pick({"holds", "hold"}, row.holders.size()));
      } else if (f.fault != CallFault::message && f.accused.empty() && !f.behind) {
        met += row.peer < 0 ? tr(", which none has sent")
                            : tr(", which has not called the {}", counterpart_of(row));
      }
    } else if (row.entered()) {
      others +=
          tr("; {} {} in {}", names(row.ranks), pick({"is", "are"}, row.ranks.size()), call_at_line(row));
    }
  }
  if (f.fault == CallFault::message) {
    return tr("a send and its recv differ: {}{}", met, routine_text(f, names));
  }
  if (f.fault == CallFault::locked) {
    return tr("ranks wait for each other: {}{}", met, others);
  }
  if (f.behind) {
    return tr("ranks have launched a recv from each other before their sends: {}{}", met, others);
  }
  const auto awaited = std::find_if(rows.begin(), rows.end(), is_message);
  const std::string_view call = awaited != rows.end()            ? counterpart_of(*awaited)
                                : f.fault == CallFault::not_sent ? "send"
                                                                 : "recv";
  if (f.accused.empty()) {
    return tr("ranks wait for each other in messages without a counterpart: {}{}", met, others);
  }
  return tr("{} {} not called the {} that another rank waits for: {}{}", names(f.accused),
            pick({"has", "have"}, f.accused.size()), call, met, others);
}

// "all_reduce of 4096 float32 (train.py:33), call 29 of group "default""
std::string common_call(const VerdictCollective& c) {
  const auto row = std::find_if(c.calls.rbegin(), c.calls.rend(),
                                [&](const CalledBy& r) { return r.entered() && r.op == c.op; });
  return row == c.calls.rend() ? call_number(c) : tr("{}, {}", call_at_line(*row), call_number(c));
}

std::string wait_for(const CallFinding& f) {
  return f.waiting.empty()
             ? std::string()
             : tr("; {} {} for {}", rank_words(f.waiting), pick({"waits", "wait"}, f.waiting.size()),
                  pick({"it", "them"}, f.accused.size()));
}

}  // namespace

std::string call_text(const CalledBy& row) {
  if (row.op.empty()) {
    return tr("an unknown call");
  }
  std::string out = base::sanitize(row.name.empty() ? row.op : row.name);
  if (!row.reduce.empty() && row.reduce != "sum") {
    out += tr(" with {}", base::sanitize(row.reduce));
  }
  if (row.count > 0 && row.op != "barrier") {
    out += tr(" of {} {}", row.count, row.dtype.empty() ? tr("elements") : base::sanitize(row.dtype));
  }
  if (!row.sizes.empty()) {
    out += ", " + row.sizes;
  }
  if (!row.group_ranks.empty()) {
    out += tr(" of ranks {}", base::sanitize(row.group_ranks));
  }
  if (row.root >= 0) {
    const CallOperation operation = model::operation_of(row.op);
    const bool collects = operation == CallOperation::reduce || operation == CallOperation::gather;
    out += tr(" {} root {}", collects ? "to" : "from", row.root);
  }
  if (model::is_lock_call(row.op)) {
    out += row.peer >= 0 ? tr(" on rank {}", row.peer) : "";
  } else if (row.peer >= 0) {
    out += tr(" {} rank {}", model::operation_of(row.op) == CallOperation::send ? "to" : "from", row.peer);
  } else if (is_message(row)) {
    out += tr(" from any rank");
  }
  if (is_message(row) && !model::is_lock_call(row.op)) {
    out += row.tag == model::kAnyTag ? tr(" with any tag") : row.tag != 0 ? tr(" with tag {}", row.tag) : "";
  }
  return out;
}

bool made_a_call(const CalledBy& row) {
  return row.entered() || !row.op.empty();
}

std::string call_at_line(const CalledBy& row) {
  std::string at = short_place(row.where);
  if (!row.thread.empty()) {
    at += tr("{}in thread {}", at.empty() ? "" : " ", base::sanitize(row.thread));
  }
  if (row.in_handler) {
    at += tr("{}in a signal handler", at.empty() ? "" : " ");
  }
  return at.empty() ? call_text(row) : fmt::format("{} ({})", call_text(row), at);
}

bool are_ends_of_a_message(const CalledBy& a, const CalledBy& b) {
  const CallOperation one = model::operation_of(a.op);
  const CallOperation other = model::operation_of(b.op);
  const bool opposite = (one == CallOperation::send && other == CallOperation::recv) ||
                        (one == CallOperation::recv && other == CallOperation::send);
  return opposite && a.peer >= 0 && b.peer >= 0 && b.ranks.contains(a.peer) && a.ranks.contains(b.peer);
}

std::pair<CalledBy, CalledBy> differing_parts(CalledBy a, CalledBy b) {
  const bool comparable = a.op == b.op || are_ends_of_a_message(a, b);
  const auto drop = [&](auto CalledBy::*field, const auto& nothing) {
    if (!comparable || a.*field == b.*field) {
      a.*field = b.*field = nothing;
    }
  };
  if (!comparable || a.dtype == b.dtype) {  // the type stands behind the count
    drop(&CalledBy::count, uint64_t{0});
  }
  drop(&CalledBy::reduce, std::string());
  drop(&CalledBy::root, -1);
  drop(&CalledBy::tag, 0);
  drop(&CalledBy::group_ranks, std::string());
  drop(&CalledBy::sizes, std::string());
  return {std::move(a), std::move(b)};
}

std::string group_text(const VerdictCollective& c) {
  if (!c.name.empty()) {
    return quoted(c.name);
  }
  return c.ranks.empty() ? tr("communicator {}", base::sanitize(c.id))
                         : tr("the communicator of {}", rank_words(c.ranks));
}

std::string call_number(const VerdictCollective& c) {
  return tr("call {} of {}", c.sequence, group_text(c));
}

std::vector<std::string> call_evidence(const VerdictCollective& c) {
  std::vector<std::string> out;
  const auto is_elsewhere = [&](const CalledBy& row) {
    return !row.communicator.empty() && row.communicator != c.name && row.communicator != c.id;
  };
  const bool several = std::any_of(c.calls.begin(), c.calls.end(), is_elsewhere);
  for (const CalledBy& row : c.calls) {
    if (!row.entered() && c.sequence == 0) {
      continue;  // a message: it has no number that ranks share
    }
    if (out.size() == kMostRows) {
      out.push_back(tr("and {} more calls", c.calls.size() - kMostRows));
      break;
    }
    const std::string number = several && !row.communicator.empty()
                                   ? tr("call {} of {}", row.sequence, quoted(row.communicator))
                                   : tr("call {}", row.sequence);
    // Of many open calls, the rank has kept only the latest.
    const bool known = !row.op.empty();
    out.push_back(
        row.entered() && known ? tr("{} called {} as {}", rank_words(row.ranks), call_at_line(row), number)
        : row.entered()
            ? tr("{} {} entered {}", rank_words(row.ranks), pick({"has", "have"}, row.ranks.size()), number)
            : tr("{} {} not entered {}", rank_words(row.ranks), pick({"has", "have"}, row.ranks.size()),
                 call_number(c)));
  }
  return out;
}

std::string fault_text(const CallFinding& f, const RankNamer& names) {
  const VerdictCollective& c = f.collective;
  const std::string who = f.accused.empty() ? std::string() : names(f.accused);
  const std::string_view has = pick({"has", "have"}, f.accused.size());
  switch (f.fault) {
    case CallFault::departed:
      return departed_text(f, names) + wait_for(f);
    case CallFault::operation:
    case CallFault::members:
    case CallFault::root:
    case CallFault::type:
    case CallFault::size:
    case CallFault::splits:
      return mismatch_text(f, names);
    case CallFault::swapped:
      return swapped_text(f, names);
    case CallFault::order:
      return order_text(f, names);
    case CallFault::message:
    case CallFault::not_sent:
    case CallFault::not_received:
    case CallFault::locked:
      return message_text(f, names);
    case CallFault::not_entered:
      return tr("{} {} not entered {}{}{}", who, has, common_call(c), wait_for(f),
                c.departure == Departure::none ? std::string() : "; " + departed_text(f, names));
    case CallFault::not_launched:
      return f.accused.empty()
                 ? tr("all ranks have entered {}, and none has launched it on its GPU", common_call(c))
                 : tr("{} {} entered {}, and not launched it on the GPU{}", who, has, common_call(c),
                      wait_for(f));
    case CallFault::queued:
      return tr("the GPU of {} has not started {}: earlier work keeps it{}", who, common_call(c),
                wait_for(f));
    case CallFault::not_finished:
      return tr("{} {} not finished {}; other ranks have", who, has, common_call(c));
    case CallFault::all_entered:
      break;
  }
  return f.complete ? tr("all {} ranks have entered {}, and none has finished it, which points to the "
                         "network or a GPU",
                         c.size, common_call(c))
                    : tr("all ranks seen here have entered {}; {} of its {} ranks are not seen here",
                         common_call(c), c.size - static_cast<int>(f.waiting.size()), c.size);
}

}  // namespace xpurun::report
