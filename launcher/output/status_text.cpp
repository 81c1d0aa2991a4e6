#include "launcher/output/status_text.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/frame_text.h"
#include "launcher/output/text_block.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace xpurun::launcher {

namespace {

using base::tr;

// A shorter time only means that the next poll is not due yet.
constexpr double kFreshS = 5;

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

bool is_quiet(const LiveRank& r) {
  return r.still_s >= kFreshS;
}

// "rank 2 (data.py:12)", "ranks 0-3"
std::string culprit_text(const LiveStatus& s, bool with_place) {
  const bool one = s.culprits.size() == 1;
  std::string out = one ? tr("rank {}", s.culprits.brief()) : tr("ranks {}", s.culprits.brief());
  const auto rank = std::find_if(s.ranks.begin(), s.ranks.end(),
                                 [&](const LiveRank& r) { return s.culprits.contains(r.rank); });
  if (one && with_place && rank != s.ranks.end() && !rank->file.empty()) {
    out += base::sanitize(tr(" ({}:{})", model::source_name(rank->file), rank->line));
  }
  return out;
}

std::string with_culprits(const LiveStatus& s, const std::string& text, bool with_place) {
  return s.culprits.empty() ? text : tr("{}, waiting for {}", text, culprit_text(s, with_place));
}

std::string stall_text(const LiveStatus& s, double stalled, bool with_place) {
  const std::string since = base::human_duration(stalled);
  return with_culprits(s,
                       s.hang_timeout_s > stalled
                           ? tr("stalled {} of {}", since, base::human_duration(s.hang_timeout_s))
                           : tr("stalled {}", since),
                       with_place);
}

// Without a stall. A rank without progress may only wait for one that moves in circles, so ranks without
// progress are counted, and only culprits are named.
std::string moving_text(const LiveStatus& s, bool with_place) {
  const auto ranks = living(s);
  if (ranks.empty()) {
    return s.ranks.empty() ? tr("starting") : tr("all ranks have ended");
  }
  if (!is_quiet(ranks.front())) {
    const std::string steps = steps_line(s.steps);
    return steps.empty() ? tr("all active") : steps;
  }
  return with_culprits(
      s,
      tr("{} of {} ranks without progress for {}", std::count_if(ranks.begin(), ranks.end(), is_quiet),
         ranks.size(), base::human_duration(ranks.front().still_s)),
      with_place);
}

}  // namespace

bool has_quiet_rank(const LiveStatus& s) {
  return std::any_of(s.ranks.begin(), s.ranks.end(),
                     [](const LiveRank& r) { return r.alive && is_quiet(r); });
}

double stalled_s(const LiveStatus& s) {
  const auto ranks = living(s);
  if (s.stall_s > 0 && !ranks.empty()) {
    return s.stall_s;
  }
  const double least = s.hang_timeout_s > 0 ? std::min(kFreshS, s.hang_timeout_s / 2) : kFreshS;
  return ranks.empty() || ranks.back().still_s < least ? 0 : ranks.back().still_s;
}

std::string status_line_text(const LiveStatus& s, size_t columns, base::Language language) {
  const base::Speaking speaking(language);
  const size_t alive = living(s).size();
  const std::string ranks = s.world_size > static_cast<int>(alive) ? tr("{} of {} ranks", alive, s.world_size)
                            : alive == 1                           ? tr("{} rank", alive)
                                                                   : tr("{} ranks", alive);
  const std::string elapsed = base::human_duration(s.elapsed_s);
  const double stalled = stalled_s(s);
  const auto text = [&](bool with_place) {
    return stalled > 0 ? stall_text(s, stalled, with_place) : moving_text(s, with_place);
  };
  const bool tells = stalled > 0 || has_quiet_rank(s);
  std::string out = fmt::format("xpurun {} | {} | {}", elapsed, ranks, text(true));
  if (base::display_width(out) > columns) {
    out = tells ? fmt::format("{} | {}", elapsed, text(true))
                : fmt::format("{} | {} | {}", elapsed, ranks, text(true));
  }
  // The steps tell more than the number of ranks.
  if (!tells && s.steps.done > 0 && base::display_width(out) > columns) {
    out = text(true);
    out = base::display_width(out) > columns ? steps_line(s.steps, StepsWidth::narrow) : out;
  }
  if (tells && base::display_width(out) > columns) {
    out = text(false);
  }
  return cut_end(out, columns);
}

}  // namespace xpurun::launcher
