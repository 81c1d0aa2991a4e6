#include "launcher/output/status_text.h"

#include "common/base/strings.h"
#include "launcher/output/text_block.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace xpurun::launcher {

namespace {

// A shorter time only means that the next poll is not due yet.
constexpr double kFreshS = 5;
constexpr size_t kNamedRanks = 3;

// The stillest first.
std::vector<LiveRank> living(const LiveStatus& s) {
  std::vector<LiveRank> out;
  std::copy_if(s.ranks.begin(), s.ranks.end(), std::back_inserter(out),
               [](const LiveRank& r) { return r.alive; });
  std::sort(out.begin(), out.end(), [](const LiveRank& a, const LiveRank& b) {
    return std::pair(b.still_s, a.rank) < std::pair(a.still_s, b.rank);
  });
  return out;
}

std::string nobody(const LiveStatus& s) {
  return s.ranks.empty() ? "starting" : "all ranks have ended";
}

std::string moving_text(const LiveStatus& s) {
  const auto ranks = living(s);
  if (ranks.empty()) {
    return nobody(s);
  }
  std::string out;
  size_t named = 0;
  for (; named < ranks.size() && named < kNamedRanks && ranks[named].still_s >= kFreshS; ++named) {
    out += fmt::format("{}rank {} {} ago", named == 0 ? "" : ", ", ranks[named].rank,
                       base::human_duration(ranks[named].still_s));
  }
  if (named == ranks.size()) {
    return "last progress: " + out;
  }
  const double next = std::max(ranks[named].still_s, 1.0);
  return fmt::format("last progress: {}{} {} ago", out, named == 0 ? "all within" : ", others within",
                     base::human_duration(next));
}

// For narrow terminals.
std::string short_moving_text(const LiveStatus& s) {
  const auto ranks = living(s);
  if (ranks.empty()) {
    return nobody(s);
  }
  return ranks.front().still_s < kFreshS ? "all moving"
                                         : fmt::format("rank {} still {}", ranks.front().rank,
                                                       base::human_duration(ranks.front().still_s));
}

// "rank 2 (data.py:12)", "ranks 0-3"
std::string culprit_text(const LiveStatus& s, bool with_place) {
  const bool one = s.culprits.size() == 1;
  std::string out = fmt::format("rank{} {}", one ? "" : "s", s.culprits.brief());
  const auto rank = std::find_if(s.ranks.begin(), s.ranks.end(),
                                 [&](const LiveRank& r) { return s.culprits.contains(r.rank); });
  if (one && with_place && rank != s.ranks.end() && !rank->file.empty()) {
    out += base::sanitize(fmt::format(" ({}:{})", base::base_name(rank->file), rank->line));
  }
  return out;
}

std::string stall_text(const LiveStatus& s, double stalled, bool with_place) {
  std::string out = fmt::format("stalled {}", base::human_duration(stalled));
  if (s.hang_timeout_s > stalled) {
    out += fmt::format(" of {}", base::human_duration(s.hang_timeout_s));
  }
  return s.culprits.empty() ? out : fmt::format("{}, waiting for {}", out, culprit_text(s, with_place));
}

}  // namespace

double stalled_s(const LiveStatus& s) {
  const auto ranks = living(s);
  const double least = s.hang_timeout_s > 0 ? std::min(kFreshS, s.hang_timeout_s / 2) : kFreshS;
  return ranks.empty() || ranks.back().still_s < least ? 0 : ranks.back().still_s;
}

std::string status_line_text(const LiveStatus& s, size_t columns) {
  const size_t alive = living(s).size();
  const std::string ranks = s.world_size > static_cast<int>(alive)
                                ? fmt::format("{} of {} ranks", alive, s.world_size)
                                : fmt::format("{} rank{}", alive, alive == 1 ? "" : "s");
  const std::string elapsed = base::human_duration(s.elapsed_s);
  const double stalled = stalled_s(s);
  const std::string text = stalled > 0 ? stall_text(s, stalled, true) : moving_text(s);
  std::string out = fmt::format("xpurun {} | {} | {}", elapsed, ranks, text);
  if (base::display_width(out) > columns) {
    out = fmt::format("{} | {}", elapsed, stalled > 0 ? text : ranks + " | " + short_moving_text(s));
  }
  if (stalled > 0 && base::display_width(out) > columns) {
    out = stall_text(s, stalled, false);
  }
  return cut_end(out, columns);
}

}  // namespace xpurun::launcher
