#include "report/diagnosis/title.h"

#include "common/base/os/wait_status.h"
#include "common/base/output/opening_words.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/call_words.h"
#include "report/diagnosis/ends/exceptions.h"
#include "report/diagnosis/ends/origin.h"
#include "report/diagnosis/vocabulary.h"
#include "report/diagnosis/wording.h"
#include "report/speed/wording.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <vector>

namespace xpurun::report {

using base::tr;
using model::CalledBy;
using model::CodeLocation;
using model::RankState;
using model::Verdict;
using model::VerdictKind;

namespace {

// Longest first. The first that fits is the title.
using Choices = std::vector<std::string>;

std::string who(const Verdict& v) {
  const std::string ranks = rank_words(v.ranks);
  return v.hosts.size() == 1 ? tr("{} (host {})", ranks, base::sanitize(v.hosts.front().host)) : ranks;
}

// " since 03:15:04 UTC"; for the end of a rank " at 03:15:04 UTC"; for steps that were slow and are over "
// from".
std::string when(const Verdict& v) {
  constexpr size_t kClock = 11;  // "2026-11-21T02:15:00Z"
  if (v.since.size() < kClock + 8) {
    return "";
  }
  const std::string clock = base::sanitize(v.since.substr(kClock, 8)) + " UTC";
  const bool ends =
      v.kind == VerdictKind::crash || v.kind == VerdictKind::exception || v.kind == VerdictKind::exit;
  return ends ? tr(" at {}", clock) : v.slow.until_step > 0 ? tr(" from {}", clock) : tr(" since {}", clock);
}

Choices places(const CodeLocation& where) {
  CodeLocation line = where;
  line.target.clear();
  CodeLocation bare = line;
  bare.callee.clear();
  return {place(where), place(line), place(bare), short_place(where)};
}

Choices with_places(const CodeLocation& where, const std::function<std::string(const std::string&)>& text) {
  Choices out;
  for (const std::string& at : places(where)) {
    out.push_back(text(at));
  }
  return out;
}

std::string doing(RankState state, size_t n, const std::string& at) {
  switch (state) {
    case RankState::stopped:
      return tr("{} stopped (SIGSTOP) in {}", pick({"is", "are"}, n), at);
    case RankState::uninterruptible:
      return tr("{} blocked in the kernel in {}", pick({"is", "are"}, n), at);
    case RankState::busy:
      return tr("{} busy in {}", pick({"is", "are"}, n), at);
    case RankState::waiting:
      return tr("{} waiting in {}", pick({"is", "are"}, n), at);
    default:
      return tr("{} stuck in {}", pick({"is", "are"}, n), at);
  }
}

struct TwoCalls {
  std::string first;
  std::string second;
};

// Two calls in words, with fewer and fewer details: what differs goes last.
std::vector<TwoCalls> compared(const CalledBy& a, const CalledBy& b) {
  std::vector<TwoCalls> out = {{call_at_line(a), call_at_line(b)}};
  const auto [x, y] = differing_parts(a, b);
  out.push_back({call_at_line(x), call_at_line(y)});
  if (call_text(x) != call_text(y)) {  // else they differ by the line alone
    out.push_back({call_at_line(x), call_text(y)});
    out.push_back({call_text(x), call_text(y)});
  }
  return out;
}

Choices of_departure(const Verdict& v) {
  const model::VerdictCollective& c = v.collective;
  const auto both = [&](const std::function<std::string(const TwoCalls&)>& text) {
    Choices out;
    for (const TwoCalls& calls : compared(c.departing, c.expected)) {
      out.push_back(text(calls));
    }
    return out;
  };
  const std::string call = call_at_line(c.departing);
  switch (c.departure) {
    case model::Departure::extra:
      return {tr("{} made one call more than the others: {}", who(v), call)};
    case model::Departure::skipped:
      return {tr("{} left out {}", who(v), call)};
    case model::Departure::other:
      return both([&](const TwoCalls& calls) {
        return tr("{} called {}, not {}", who(v), calls.first, calls.second);
      });
    case model::Departure::order:
      return both([&](const TwoCalls& calls) {
        return tr("{} called {} before {}", who(v), calls.first, calls.second);
      });
    case model::Departure::none:
      break;
  }
  return {};
}

// "rank 0 called barrier (a.py:5), ranks 1-3 all_reduce (a.py:12)"
Choices of_calls(const Verdict& v) {
  constexpr size_t kSides = 2;
  std::vector<const CalledBy*> sides;
  for (const CalledBy& row : v.collective.calls) {
    if (made_a_call(row) && sides.size() < kSides) {
      sides.push_back(&row);
    }
  }
  if (sides.size() < kSides) {
    return {};
  }
  Choices out;
  for (const TwoCalls& calls : compared(*sides[0], *sides[1])) {
    out.push_back(tr("{} called {}, {} {}", rank_words(sides[0]->ranks), calls.first,
                     rank_words(sides[1]->ranks), calls.second));
  }
  return out;
}

// The verdict accuses ranks of a call that does not fit the other ranks'.
bool is_about_calls(const Verdict& v) {
  if (!v.collective.present() || v.ranks.empty()) {
    return false;
  }
  const std::vector<CalledBy>& calls = v.collective.calls;
  return v.id == kHangMismatch || v.id == kHangMismatchSize || v.id == kHangMismatchType ||
         v.id == kHangMismatchRoot || v.id == kCrashMismatch || v.id == kExitMismatch ||
         v.id == kMismatchSilent ||
         (v.id == kHangP2p && calls.size() > 1 && are_ends_of_a_message(calls[0], calls[1]));
}

Choices of_calls_or_departure(const Verdict& v) {
  return v.collective.departure != model::Departure::none ? of_departure(v) : of_calls(v);
}

Choices of_hang(const Verdict& v) {
  if (v.ranks.empty() || v.where.empty()) {
    return {};
  }
  const bool holds =
      v.id == kHangLock && std::any_of(v.waiting.begin(), v.waiting.end(),
                                       [](const model::Waiting& w) { return w.what == "lock"; });
  if (holds) {
    return with_places(v.where, [&](const std::string& at) {
      return tr("{} {} a lock in {}", who(v), pick({"holds", "hold"}, v.ranks.size()), at);
    });
  }
  if (v.id == kHangNotEntered && !v.collective.op.empty()) {
    return with_places(v.where, [&](const std::string& at) {
      return tr("{} {} not entered {}, but {} in {}", who(v), pick({"has", "have"}, v.ranks.size()),
                base::sanitize(v.collective.op), pick({"is", "are"}, v.ranks.size()), at);
    });
  }
  if (v.id == kHangKernel) {
    return with_places(v.where, [&](const std::string& at) {
      return tr("{} {} for {} own GPU in {}", who(v), pick({"waits", "wait"}, v.ranks.size()),
                pick({"its", "their"}, v.ranks.size()), at);
    });
  }
  // Of a rank that is in no call with others, the place says it all.
  const bool elsewhere = v.id == kHangStuck || v.state == RankState::stuck || v.state == RankState::busy;
  const bool of_a_call = (v.collective.present() && !elsewhere) || v.id == kHangP2p;
  if (of_a_call || v.id == kHangGpuError || v.state == RankState::dead) {
    return {};
  }
  return with_places(v.where, [&](const std::string& at) {
    return fmt::format("{} {}", who(v), doing(v.state, v.ranks.size(), at));
  });
}

// With sentences of the message if they fit beside a form of the place, else with its first words.
Choices of_exception(const Verdict& v, const std::string& what) {
  constexpr size_t kLeast = 50;  // columns of the message
  const auto words = [&v](const std::string& message, const std::string& at) {
    const std::string raised = tr("{} raised {}", who(v), message);
    return v.where.empty() ? raised : tr("{} in {}", raised, at);
  };
  Choices out;
  Choices clipped;
  for (const std::string& at : places(v.where)) {
    const size_t others = base::display_width(words("", at) + when(v));
    const std::string message =
        base::opening_words(what, std::max(kLeast, others < kTitleColumns ? kTitleColumns - others : 0));
    (message.ends_with("…") ? clipped : out).push_back(words(message, at));
  }
  out.insert(out.end(), clipped.begin(), clipped.end());
  return out;
}

Choices of_end(const Verdict& v) {
  if (v.ranks.empty()) {
    return {};
  }
  model::PythonException own;
  own.chain.push_back({.type = v.exception.type, .message = v.exception.message});
  if (v.exception.present() && v.memory.present() && !lacks_host_memory(own)) {
    return with_places(v.memory.where, [&](const std::string& at) {
      return tr("a worker of {} ran out of memory: {} allocated at {}", who(v),
                base::human_size(static_cast<uint64_t>(v.memory.bytes)), at);
    });
  }
  if (v.exception.present()) {
    // What a worker of a data loader raised stands in the message of the rank's own exception.
    const auto origin = origin_of(own);
    return of_exception(v, base::sanitize(model::headline(origin ? origin->link : own.chain.front())));
  }
  if (v.memory.present()) {
    return with_places(v.memory.where, [&](const std::string& at) {
      return tr("{} ran out of memory: {} allocated at {}", who(v),
                base::human_size(static_cast<uint64_t>(v.memory.bytes)), at);
    });
  }
  if (v.signal != 0) {
    const std::string died = v.id == kCrashSignal
                                 ? tr("{} died of {}", who(v), base::signal_name(v.signal))
                                 : tr("{} was killed by {}", who(v), base::signal_name(v.signal));
    return v.where.empty()
               ? Choices{died}
               : with_places(v.where, [&](const std::string& at) { return tr("{} in {}", died, at); });
  }
  if (v.id == kExitError && v.exit_code >= 0) {
    const std::string ended = tr("{} exited with status {}", who(v), v.exit_code);
    return v.where.empty()
               ? Choices{ended}
               : with_places(v.where, [&](const std::string& at) { return tr("{} in {}", ended, at); });
  }
  return {};
}

Choices of_slowness(const Verdict& v) {
  if (v.ranks.empty() || !v.slow.present()) {
    return {};
  }
  if (v.slow.until_step > 0 && v.slow.share < 1) {
    const double longer = v.slow.share / (1 - v.slow.share);
    const std::string slowed = tr("{} slowed the steps {} to {} by {}", who(v), grouped(v.slow.step),
                                  grouped(v.slow.until_step), percent(longer));
    return v.where.empty()
               ? Choices{slowed}
               : with_places(v.where, [&](const std::string& at) { return tr("{} in {}", slowed, at); });
  }
  const std::string costs = v.slow.lost_s > 0
                                ? tr("{} {} {} of every step", who(v),
                                     pick({"costs", "cost"}, v.ranks.size()), percent(v.slow.share))
                                : late_words(v.ranks, v.slow.share);
  return v.where.empty()
             ? Choices{costs}
             : with_places(v.where, [&](const std::string& at) { return tr("{} in {}", costs, at); });
}

// The first clauses if they fill half of a title, else the first words.
std::string cut(const std::string& text) {
  if (base::display_width(text) <= kTitleColumns) {
    return text;
  }
  std::string clauses;
  for (const std::string_view mark : {std::string_view("; "), std::string_view(": ")}) {
    const std::string foreign = tr(mark);
    for (size_t at = 0; (at = text.find(foreign, at)) != std::string::npos; ++at) {
      if (at > clauses.size() && base::display_width(text.substr(0, at)) <= kTitleColumns) {
        clauses = text.substr(0, at);
      }
    }
  }
  return base::display_width(clauses) * 2 >= kTitleColumns ? clauses
                                                           : base::opening_words(text, kTitleColumns);
}

Choices choices(const Verdict& v) {
  if (is_about_calls(v)) {
    return of_calls_or_departure(v);
  }
  switch (v.kind) {
    case VerdictKind::hang:
      return of_hang(v);
    case VerdictKind::crash:
    case VerdictKind::exception:
    case VerdictKind::exit:
      return of_end(v);
    case VerdictKind::slow:
      return of_slowness(v);
    case VerdictKind::interrupted: {
      Choices out = v.slow.present() ? of_slowness(v) : of_hang(v);
      for (std::string& text : out) {
        text = tr("ended while {}", text);
      }
      return out;
    }
    default:
      return {};
  }
}

std::string first_that_fits(const Verdict& v, const Choices& texts) {
  const std::string since = when(v);
  // What differs between two calls is worth more than the time of day.
  const bool may_lack_time = is_about_calls(v);
  for (const std::string& text : texts) {
    for (const std::string& time : {since, std::string()}) {
      std::string title = base::tidied(text + time);
      if (base::display_width(title) <= kTitleColumns) {
        return title;
      }
      if (!may_lack_time) {
        break;
      }
    }
  }
  return cut(base::sanitize(v.headline.empty() ? v.sentence : v.headline));
}

}  // namespace

std::string title_of(const Verdict& v) {
  return first_that_fits(v, choices(v));
}

std::string title_with(const Verdict& v, const std::string& words) {
  Choices texts;
  if (!v.where.empty()) {
    texts = with_places(v.where, [&](const std::string& at) { return tr("{} in {}", words, at); });
  }
  texts.push_back(words);
  return first_that_fits(v, texts);
}

std::string place_in_title(const Verdict& v, std::string_view title) {
  if (v.where.empty()) {
    return "";
  }
  for (const std::string& at : places(v.where)) {
    if (!at.empty() && title.find(at) != std::string_view::npos) {
      return at;
    }
  }
  return "";
}

std::vector<std::string> sentence_lines(const Verdict& v) {
  const bool is_cut = v.headline.starts_with(v.title) || v.title.ends_with("…");  // of the headline
  if (v.title.empty() || v.headline.empty() || base::display_width(v.sentence) <= kTitleColumns || is_cut) {
    return {v.sentence};
  }
  const std::string title =
      v.kind == VerdictKind::none ? v.title : tr("{}: {}", tr(heading_word(v)), v.title);
  return {title, "  " + v.headline};
}

}  // namespace xpurun::report
