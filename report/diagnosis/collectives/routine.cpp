#include "report/diagnosis/collectives/routine.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>

namespace xpurun::report {

using model::Departure;

namespace {

constexpr size_t kEnough = 3;              // times that the calls before must have come
constexpr size_t kLearning = 6;            // calls that are judged before a surprise counts
constexpr size_t kSurprisingPercent = 10;  // of the calls: more, and there is no routine
constexpr size_t kMostLeftOut = 64;

// What came before, at the places where the same calls had come.
struct Place {
  size_t at;      // index of the call that followed
  size_t length;  // number of equal calls before
};

// The places whose past is like that of the call at hand for the longest: as long as at least kEnough places
// share it. Empty if fewer have anything in common.
std::vector<Place> likest(const std::vector<uint32_t>& lengths, size_t at) {
  std::vector<Place> out;
  for (size_t j = 1; j < at; ++j) {
    if (lengths[j] > 0) {
      out.push_back({j, lengths[j]});
    }
  }
  if (out.size() < kEnough) {
    return {};
  }
  std::vector<size_t> longest;
  for (const Place& p : out) {
    longest.push_back(p.length);
  }
  std::nth_element(longest.begin(), longest.begin() + (kEnough - 1), longest.end(), std::greater<>());
  const size_t least = longest[kEnough - 1];
  std::erase_if(out, [&](const Place& p) { return p.length < least; });
  return out;
}

// Compares what follows with what followed at the place that is most like this one.
void classify(std::span<const int> calls, const Place& like, Surprise& s) {
  const int made = calls[s.at];
  const auto usual = [&](size_t after) {
    const size_t i = like.at + after;
    return i < s.at ? calls[i] : -1;
  };
  const int next = s.at + 1 < calls.size() ? calls[s.at + 1] : -1;
  if (made == usual(1) && next == s.expected && next != usual(2)) {
    s.kind = Departure::order;
    return;
  }
  for (size_t n = 1; n <= kMostLeftOut && usual(n) >= 0; ++n) {
    const bool goes_on = next < 0 ? n == 1 : next == usual(n + 1) || (n == 1 && next != s.expected);
    if (made == usual(n) && goes_on) {
      s.kind = Departure::skipped;
      s.left_out = n;
      return;
    }
  }
  s.kind = next == s.expected ? Departure::extra : Departure::other;
}

}  // namespace

std::vector<Surprise> surprises(std::span<const int> calls) {
  std::vector<Surprise> out;
  // lengths[j]: how many calls before `at` equal those before j.
  std::vector<uint32_t> lengths(calls.size() + 1, 0);
  size_t judged = 0;
  for (size_t at = 1; at < calls.size(); ++at) {
    for (size_t j = at - 1; j > 0; --j) {
      lengths[j] = calls[j - 1] == calls[at - 1] ? lengths[j - 1] + 1 : 0;
    }
    lengths[0] = 0;
    const std::vector<Place> places = likest(lengths, at);
    const size_t since = out.empty() ? SIZE_MAX : at - out.back().at;
    const auto reaches = [&](const Place& p) { return p.length > since; };
    if (places.empty() || (since <= kRecovery && std::none_of(places.begin(), places.end(), reaches))) {
      continue;
    }
    ++judged;
    std::map<int, size_t> followed;
    for (const Place& p : places) {
      ++followed[calls[p.at]];
    }
    if (followed.contains(calls[at]) || judged <= kLearning) {
      continue;
    }
    const auto most = std::max_element(followed.begin(), followed.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    Surprise s{.at = at, .expected = most->first};
    for (size_t j = 0; j < at; ++j) {
      s.repeated += calls[j] == s.expected && (j == 0 || calls[j - 1] == calls[at - 1]) ? 1 : 0;
    }
    const Place* like = nullptr;
    for (const Place& p : places) {
      if (calls[p.at] == s.expected && (like == nullptr || p.length >= like->length)) {
        like = &p;
      }
    }
    classify(calls, *like, s);
    out.push_back(s);
  }
  return out.size() * 100 > std::max(judged, size_t{20}) * kSurprisingPercent ? std::vector<Surprise>() : out;
}

}  // namespace xpurun::report
