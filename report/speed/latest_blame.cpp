#include "report/speed/latest_blame.h"

#include "report/speed/ranks/rank_shift.h"
#include "report/speed/ranks/slow_rule.h"

#include <algorithm>

namespace xpurun::report {

namespace {

constexpr size_t kFewKnown = 4;    // steps with known waits
constexpr double kCausedBy = 0.5;  // of a change that slow ranks explain

// The rank whose own time has risen most over that of the others, if it is slow since then. The mean of a
// window that began earlier does not show that on a busy machine.
std::optional<LatestBlame> risen_most(const Compared& by, StepWindow window) {
  const auto risen = onsets(by.level, window, by.least_after, kLeastBlame);
  const auto most = std::max_element(risen.begin(), risen.end(), [](const auto& a, const auto& b) {
    return (a ? a->risen : 0) < (b ? b->risen : 0);
  });
  if (most == risen.end() || !*most) {
    return {};
  }
  const StepWindow later{(*most)->step, window.last};
  const std::vector<size_t> alone{static_cast<size_t>(most - risen.begin())};
  auto blame = find_blame(by.level, by.hosts, later);
  return blame && blame->ranks == alone
             ? std::optional(LatestBlame{.blame = std::move(*blame),
                                         .window = later,
                                         .risen_only = true,
                                         .since = static_cast<int64_t>(later.first)})
             : std::nullopt;
}

}  // namespace

std::optional<LatestBlame> latest_blame(const Compared& by, StepWindow window) {
  auto blame = find_blame(by.level, by.hosts, window);
  // They may have become slow too late for the mean of the window.
  const StepWindow recent{window.last - std::min(by.least_after, window.size()), window.last};
  const auto suspects = blame ? blame : find_blame(by.level, by.hosts, recent);
  if (!suspects) {
    return risen_most(by, window);
  }
  const auto rise = rise_of_ranks(by.level, window, suspects->ranks, by.least_after);
  // Between two looks, nothing tells more of the beginning than the steps of the job do.
  const bool since_change = rise && !by.changes.empty() && blame && blame->ranks == suspects->ranks &&
                            window.first == static_cast<size_t>(by.changes.back().step) &&
                            known_steps(by.own, {window.first, *rise}) <= kFewKnown;
  const auto already = rise ? find_blame(by.level, by.hosts, {window.first, *rise}) : std::nullopt;
  const bool before = already && already->ranks == suspects->ranks;
  // Ranks that were late before and are later now may differ too much for the mean of the window.
  if (rise && !since_change && (!before || !blame)) {
    const StepWindow later{*rise, window.last};
    if (auto now = find_blame(by.level, by.hosts, later); now && now->ranks == suspects->ranks) {
      return LatestBlame{
          .blame = std::move(*now), .window = later, .since = before ? -1 : static_cast<int64_t>(*rise)};
    }
  }
  return blame ? std::optional(LatestBlame{.blame = std::move(*blame), .window = window}) : std::nullopt;
}

int64_t onset_of(const Compared& by, StepWindow window, const Blame& blame,
                 const std::optional<Slowdown>& slow) {
  const StepWindow all{std::min(kWarmUpSteps, window.first), window.last};
  const auto rise = rise_of_ranks(by.level, all, blame.ranks, by.least_after);
  bool caused = false;
  if (slow) {
    const auto change = static_cast<size_t>(slow->change.step);
    const auto earlier = find_blame(by.level, by.hosts, slow->before);
    caused = !earlier || earlier->ranks != blame.ranks || earlier->lost_s < kCausedBy * blame.lost_s;
    const bool unseen =
        rise && known_steps(by.own, {std::min(change, *rise), std::max(change, *rise)}) <= kFewKnown;
    if (caused &&
        (!rise || unseen || (*rise + by.least_after >= change && *rise <= change + by.least_after))) {
      return slow->change.step;
    }
  }
  const auto later = rise ? find_blame(by.level, by.hosts, {*rise, window.last}) : std::nullopt;
  if (later && later->ranks == blame.ranks) {
    return static_cast<int64_t>(*rise);
  }
  return caused ? slow->change.step : -1;
}

}  // namespace xpurun::report
