#include "report/diagnosis/wording.h"

#include "common/base/clock.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/frame_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace xpurun::report {

using base::tr;
using model::CodeLocation;
using model::RankSet;
using model::Waiting;

namespace {

constexpr size_t kMostGroups = 2;
constexpr size_t kLongestLine = 432;  // columns

}  // namespace

std::string joined_clauses(const std::vector<std::string>& clauses) {
  std::string out;
  for (const std::string& clause : clauses) {
    const std::string longer = out.empty() ? clause : fmt::format("{}{}{}", out, tr("; "), clause);
    if (!out.empty() && base::display_width(longer) > kLongestLine) {
      break;
    }
    out = longer;
  }
  return out;
}

Views pointers_to(const std::vector<RankView>& views) {
  Views out;
  for (const RankView& v : views) {
    out.push_back(&v);
  }
  return out;
}

RankSet ranks_of(const Views& views) {
  RankSet out;
  for (const RankView* v : views) {
    out.insert(v->rank);
  }
  return out;
}

std::string rank_words(const RankSet& ranks) {
  return ranks.size() == 1 ? tr("rank {}", ranks.brief()) : tr("ranks {}", ranks.brief());
}

std::string short_place(const CodeLocation& where) {
  if (where.file.empty()) {
    return {};
  }
  const std::string name = base::sanitize(model::source_name(where.file));
  return where.line > 0 ? fmt::format("{}:{}", name, where.line) : name;
}

std::string place(const CodeLocation& where) {
  if (where.function.empty()) {
    return tr("an unknown place");
  }
  std::string function = base::sanitize(where.function);
  const std::string at = short_place(where);
  if (at.empty()) {
    return function;
  }
  std::string called = base::sanitize(where.callee);
  if (!where.target.empty()) {
    called += (called.empty() ? "" : " ") + base::sanitize(where.target);
  }
  if (!where.native.empty()) {
    const std::string line =
        short_place({.function = {}, .file = where.native_file, .line = where.native_line});
    return fmt::format("{}{} ← {} ({})", base::sanitize(where.native),
                       line.empty() ? "" : fmt::format(" ({})", line), function, at);
  }
  return called.empty() ? fmt::format("{} ({})", function, at)
                        : fmt::format("{} ({}: {})", function, at, called);
}

std::string waiting_place(std::string_view what, const CodeLocation& where) {
  const std::string at = short_place(where);
  std::string words = tr(what);
  if (at.empty()) {
    return words;
  }
  return what.ends_with(')') ? tr("{} at {}", words, at) : fmt::format("{} ({})", words, at);
}

std::string_view pick(Verb verb, size_t n) {
  return n == 1 ? verb.one : verb.many;
}

bool knows_clock(const model::RunManifest& run, double at_s) {
  // Larger values come from damaged files.
  constexpr double kLongestRunS = 1e9;
  constexpr int64_t kLatestNs = int64_t{1} << 62;
  return run.started_wall_ns > 0 && run.started_wall_ns <= kLatestNs && at_s >= 0 && at_s < kLongestRunS;
}

std::string utc_words(const model::RunManifest& run, double at_s, int decimals) {
  constexpr double kSameDayS = 12 * 3600;
  const int64_t wall_ns = run.started_wall_ns + base::s_to_ns(at_s);
  const std::string clock = base::utc_iso8601(wall_ns);  // 2026-11-21T02:15:00Z
  const std::string date = at_s < kSameDayS ? "" : clock.substr(0, 10) + ' ';
  const std::string fraction =
      decimals > 0 ? fmt::format(".{:03}", wall_ns / 1'000'000 % 1000).substr(0, 1 + size_t(decimals)) : "";
  return fmt::format("{}{}{} UTC", date, clock.substr(11, 8), fraction);
}

std::string moment_words(const model::RunManifest& run, double at_s, int decimals) {
  if (!knows_clock(run, at_s)) {
    return tr("at {:.{}f} s", at_s, decimals);
  }
  // Whole seconds as in seconds_words(), because a verdict states the same moment in both ways.
  return tr("at {} ({} in)", utc_words(run, at_s, decimals),
            base::human_duration(at_s < 10 ? at_s : std::floor(at_s)));
}

std::string after_words(const model::RunManifest& run, double at_s) {
  const std::string seconds = seconds_words(at_s);
  return knows_clock(run, at_s) ? tr("after {} ({})", seconds, utc_words(run, at_s))
                                : tr("after {}", seconds);
}

double seconds_in(const model::RunManifest& run, int64_t wall_ns) {
  // As numbers that cannot overflow: a damaged file may have any times.
  return (static_cast<double>(wall_ns) - static_cast<double>(run.started_wall_ns)) / 1e9;
}

std::string lost_preload_words(const model::RankSet& ranks) {
  return tr(
      "{} ran without xpurun's library, because a script of the job has replaced LD_PRELOAD or the "
      "environment: memory by line, crashes and calls are missing; keep what is there, as in "
      "LD_PRELOAD=libx.so:$LD_PRELOAD",
      rank_words(ranks));
}

std::string seconds_words(double seconds) {
  if (seconds < 0) {
    return "0 s";
  }
  return seconds < 1    ? base::human_duration(seconds)
         : seconds < 10 ? fmt::format("{} s", static_cast<int64_t>(seconds))
                        : base::human_duration(std::floor(seconds));
}

std::string raise_timeout_words(double timeout_s) {
  const std::string now = timeout_s > 0 ? tr(" (now {})", base::human_duration(timeout_s)) : std::string();
  return tr("if this step is expected to take this long, raise --hang-timeout{}", now);
}

std::vector<Waiting> waiting_groups(const Views& waiting) {
  using Key = std::tuple<std::string, std::string, int>;  // operation, file, line
  std::map<Key, Waiting> by_site;
  std::map<std::string, RankSet> unknown_site;
  for (const RankView* v : waiting) {
    if (!v->wait) {
      continue;  // it has waited, by its calls
    }
    const CodeLocation& where = v->wait->where;
    if (where.function.empty()) {
      unknown_site[v->wait->what].insert(v->rank);
      continue;
    }
    Waiting& group = by_site[{v->wait->what, where.file, where.line}];
    group.what = v->wait->what;
    group.where = where;
    group.ranks.insert(v->rank);
  }
  std::vector<Waiting> out;
  for (auto& [key, group] : by_site) {
    group.where.callee.clear();
    out.push_back(std::move(group));
  }
  const auto larger = [](const Waiting& a, const Waiting& b) {
    return a.ranks.size() != b.ranks.size() ? a.ranks.size() > b.ranks.size()
                                            : a.ranks.lowest() < b.ranks.lowest();
  };
  std::sort(out.begin(), out.end(), larger);
  // A rank without stacks is assumed to be where most ranks in the same operation are; "backward" matches
  // "backward (all_reduce)".
  for (const auto& entry : unknown_site) {
    const auto same = std::find_if(out.begin(), out.end(),
                                   [&](const Waiting& w) { return w.what.starts_with(entry.first); });
    if (same != out.end()) {
      same->ranks.insert(entry.second);
    } else {
      out.push_back({.ranks = entry.second, .what = entry.first, .where = {}});
    }
  }
  std::sort(out.begin(), out.end(), larger);
  return out;
}

std::string waiting_clause(const std::vector<Waiting>& groups, size_t culprits) {
  std::string out;
  size_t shown = 0;
  RankSet rest;
  for (const Waiting& group : groups) {
    if (shown == kMostGroups) {
      rest.insert(group.ranks);
      continue;
    }
    const std::string at = waiting_place(group.what, group.where);
    out += shown == 0 ? tr("{} {} for {} in {}", rank_words(group.ranks),
                           pick({"waits", "wait"}, group.ranks.size()), pick({"it", "them"}, culprits), at)
                      : tr(", {} in {}", rank_words(group.ranks), at);
    ++shown;
  }
  if (!rest.empty()) {
    out += tr(", {} elsewhere", rank_words(rest));
  }
  return out;
}

}  // namespace xpurun::report
