#include "report/speed/latest_blame.h"

#include "report/speed/ranks/rank_shift.h"
#include "report/speed/ranks/slow_rule.h"

#include <algorithm>

namespace xpurun::report {

namespace {

constexpr size_t kFewKnown = 4;     // steps with known waits
constexpr double kAsBefore = 0.75;  // of its share since a change: a rank was slow before the change, too

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

// The steps before the change with this index, and since the one before it.
StepWindow level_before(const std::vector<model::StepChange>& changes, size_t change, size_t steps) {
  const size_t end = change < changes.size() ? static_cast<size_t>(changes[change].step) : steps;
  const size_t begin = change > 0 ? static_cast<size_t>(changes[change - 1].step) : kWarmUpSteps;
  return {std::min(begin, end), end};
}

// Who was slow before the change with which the window begins.
std::optional<Blame> blame_of_level_before(const Compared& by, StepWindow window) {
  const size_t change = by.changes.size();
  return change > 0 && window.first == static_cast<size_t>(by.changes.back().step)
             ? find_blame(by.level, by.hosts, level_before(by.changes, change - 1, window.last))
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
      const bool became = !before && explains_change(blame_of_level_before(by, window), *now);
      return LatestBlame{
          .blame = std::move(*now), .window = later, .since = became ? static_cast<int64_t>(*rise) : -1};
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
    const auto before = find_blame(by.level, by.hosts, slow->before);
    const bool as_before = before && before->ranks == blame.ranks && before->share >= kAsBefore * blame.share;
    if (as_before && (!rise || *rise + by.least_after >= change)) {
      return -1;  // what made the rank slower is not what the rank costs
    }
    caused = explains_change(before, blame);
    const bool unseen =
        rise && known_steps(by.own, {std::min(change, *rise), std::max(change, *rise)}) <= kFewKnown;
    if (caused &&
        (!rise || unseen || (*rise + by.least_after >= change && *rise <= change + by.least_after))) {
      return slow->change.step;
    }
  }
  const auto later = rise ? find_blame(by.level, by.hosts, {*rise, window.last}) : std::nullopt;
  if (later && later->ranks == blame.ranks &&
      explains_change(find_blame(by.level, by.hosts, {all.first, *rise}), *later)) {
    return static_cast<int64_t>(*rise);
  }
  return caused ? slow->change.step : -1;
}

std::optional<LatestBlame> blame_before_change(const Compared& by, size_t steps) {
  std::vector<StepWindow> later{level_before(by.changes, by.changes.size(), steps)};
  for (size_t c = by.changes.size(); c > 0; --c) {
    const StepWindow level = level_before(by.changes, c - 1, steps);
    auto blame =
        known_steps(by.own, level) < kLeastWindow ? std::nullopt : find_blame(by.level, by.hosts, level);
    if (!blame) {
      later.push_back(level);
      continue;
    }
    const bool recovered = std::any_of(later.begin(), later.end(), [&](StepWindow window) {
      return have_recovered(by.level, blame->ranks, level, window);
    });
    if (recovered || blame->share < kSlowShare) {
      return {};
    }
    const int64_t since = onset_of(by, level, *blame, {});
    return LatestBlame{.blame = std::move(*blame), .window = level, .since = since};
  }
  return {};
}

}  // namespace xpurun::report
