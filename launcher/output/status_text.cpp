#include "launcher/output/status_text.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "launcher/output/text_block.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace xpurun::launcher {

namespace {

using base::tr;

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

// Ranks without progress for some time, at most `most` of them.
std::string quiet_text(const std::vector<LiveRank>& ranks, size_t most) {
  std::string out;
  for (size_t i = 0; i < std::min(ranks.size(), most) && ranks[i].still_s >= kFreshS; ++i) {
    out += (i == 0 ? "" : tr(", ")) +
           tr("rank {}: no progress for {}", ranks[i].rank, base::human_duration(ranks[i].still_s));
  }
  return out;
}

// Without a stall of the whole job.
std::string moving_text(const LiveStatus& s, size_t most) {
  const auto ranks = living(s);
  if (ranks.empty()) {
    return s.ranks.empty() ? tr("starting") : tr("all ranks have ended");
  }
  const std::string quiet = quiet_text(ranks, most);
  return quiet.empty() ? tr("all active") : quiet;
}

// "rank 2 (data.py:12)", "ranks 0-3"
std::string culprit_text(const LiveStatus& s, bool with_place) {
  const bool one = s.culprits.size() == 1;
  std::string out = one ? tr("rank {}", s.culprits.brief()) : tr("ranks {}", s.culprits.brief());
  const auto rank = std::find_if(s.ranks.begin(), s.ranks.end(),
                                 [&](const LiveRank& r) { return s.culprits.contains(r.rank); });
  if (one && with_place && rank != s.ranks.end() && !rank->file.empty()) {
    out += base::sanitize(tr(" ({}:{})", base::base_name(rank->file), rank->line));
  }
  return out;
}

std::string stall_text(const LiveStatus& s, double stalled, bool with_place) {
  const std::string since = base::human_duration(stalled);
  const std::string out = s.hang_timeout_s > stalled
                              ? tr("stalled {} of {}", since, base::human_duration(s.hang_timeout_s))
                              : tr("stalled {}", since);
  return s.culprits.empty() ? out : tr("{}, waiting for {}", out, culprit_text(s, with_place));
}

}  // namespace

double stalled_s(const LiveStatus& s) {
  const auto ranks = living(s);
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
  const std::string text = stalled > 0 ? stall_text(s, stalled, true) : moving_text(s, kNamedRanks);
  std::string out = fmt::format("xpurun {} | {} | {}", elapsed, ranks, text);
  if (base::display_width(out) > columns) {
    const bool quiet = !quiet_text(living(s), 1).empty();
    out = stalled > 0 || quiet ? fmt::format("{} | {}", elapsed, stalled > 0 ? text : moving_text(s, 1))
                               : fmt::format("{} | {} | {}", elapsed, ranks, text);
  }
  if (stalled > 0 && base::display_width(out) > columns) {
    out = stall_text(s, stalled, false);
  }
  return cut_end(out, columns);
}

}  // namespace xpurun::launcher
