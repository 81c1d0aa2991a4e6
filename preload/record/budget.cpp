#include "preload/record/budget.h"

namespace xpurun::preload {

namespace {
// A period is halved only if the doubled cost stays below this share of the budget: without a gap between
// halving and doubling the periods would oscillate.
constexpr double kRoom = 0.8;
// Counting costs the same however few calls are timed. These shares of the budget go to samples and
// completion events even if counting alone exceeds the budget. Otherwise a program of many small calls would
// never have a single duration, and in a hang the GPU's progress would be unknown.
constexpr double kKeptForSamples = 0.1;
constexpr double kKeptForMarks = 0.1;
// The poller's rounds become rarer until they take at most this share.
constexpr double kForRounds = 0.15;
}  // namespace

Periods Budget::update(uint64_t now_ns, const Spent& spent, uint64_t ppm) {
  const uint64_t elapsed = now_ns - began_ns_;
  if (began_ns_ != 0 && elapsed < kWindowNs) {
    return periods_;
  }
  if (began_ns_ != 0) {
    // Signed: the counters are read one after the other while threads add to them, so a difference can be
    // negative.
    const auto since = [](uint64_t to, uint64_t from) {
      return static_cast<double>(static_cast<int64_t>(to - from));
    };
    const double most = static_cast<double>(elapsed) * static_cast<double>(ppm) / 1e6;
    const double poll = since(spent.poll_ns, at_begin_.poll_ns);
    adapt_rounds(poll, most);
    adapt_events(since(spent.sample_ns, at_begin_.sample_ns), since(spent.mark_ns, at_begin_.mark_ns),
                 since(spent.other_ns, at_begin_.other_ns) + poll, most);
  }
  began_ns_ = now_ns;
  at_begin_ = spent;
  return periods_;
}

void Budget::adapt_rounds(double poll, double most) {
  if (poll > most * kForRounds && periods_.round < kLongestRound) {
    periods_.round *= 2;
  } else if (periods_.round > 1 && 2 * poll < most * kForRounds * kRoom) {
    periods_.round /= 2;
  }
}

void Budget::adapt_events(double sample, double mark, double other, double most) {
  const double left = most - mark - other;
  const double kept = most * kKeptForSamples;
  const double for_samples = left > kept ? left : kept;
  const double all = sample + mark + other;
  if (all > most) {
    const bool can_mark_less = mark > most * kKeptForMarks && periods_.mark < kLongestMark;
    const bool can_sample_less = sample > for_samples && periods_.sample < kLongestSample;
    if (can_mark_less && (mark > sample || !can_sample_less)) {
      periods_.mark *= 2;
      return;
    }
    if (can_sample_less) {
      periods_.sample *= 2;
      return;
    }
  } else if (periods_.mark > 1 && all + mark < most * kRoom) {
    periods_.mark /= 2;
    return;
  }
  if (periods_.sample > 1 && 2 * sample < for_samples * kRoom) {
    periods_.sample /= 2;
  }
}

}  // namespace xpurun::preload
