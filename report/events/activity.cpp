#include "report/events/activity.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <tuple>

namespace xpurun::report {

namespace {

// Delays are whole microseconds, so the time of a call is known to one.
constexpr int64_t kCallClockNs = 2'000;

bool is_on_host(TrackKind kind) {
  return kind == TrackKind::host || kind == TrackKind::python;
}

// A trace and the rank's own file read the clocks at different moments.
constexpr int64_t kReadingNs = 1'000;
// With which a slice is compared; only a damaged file has more within kReadingNs.
constexpr size_t kMostNeighbours = 256;
// Calls to pass one by one before a binary search.
constexpr size_t kNearCalls = 8;

bool is_same(const Activity& a, const Slice& x, const Slice& y) {
  const int64_t apart = std::abs(y.begin_ns - x.begin_ns);
  return apart <= (x.sequence != 0 ? kReadingNs : 0) && x.duration_ns == y.duration_ns &&
         x.track == y.track && x.sequence == y.sequence && a.calls[x.call].name == a.calls[y.call].name;
}

void drop_repeated(Activity& activity) {
  auto& slices = activity.slices;
  size_t kept = 0;
  for (const Slice& slice : slices) {
    bool known = false;
    const size_t first = kept - std::min(kept, kMostNeighbours);
    for (size_t k = kept; k-- > first && !known && slices[k].begin_ns + kReadingNs >= slice.begin_ns;) {
      known = is_same(activity, slices[k], slice);
    }
    if (!known) {
      slices[kept++] = slice;
    }
  }
  slices.resize(kept);
}

}  // namespace

uint32_t Activity::track(TrackKind kind, uint32_t number, std::string_view name) {
  const auto found = std::find_if(tracks.begin(), tracks.end(), [&](const Track& t) {
    return t.kind == kind && t.number == number && t.name == name;
  });
  if (found == tracks.end()) {
    tracks.push_back({kind, number, std::string(name)});
    return static_cast<uint32_t>(tracks.size() - 1);
  }
  return static_cast<uint32_t>(found - tracks.begin());
}

Counter& Activity::counter(std::string_view name, std::string_view unit) {
  const auto found =
      std::find_if(counters.begin(), counters.end(), [&](const Counter& c) { return c.name == name; });
  return found != counters.end()
             ? *found
             : counters.emplace_back(Counter{.name = std::string(name), .unit = std::string(unit)});
}

std::string damage_of(const Activity& activity) {
  return activity.complete ? "" : activity.damage.empty() ? std::string(kEndMissing) : activity.damage;
}

void put_in_order(Activity& activity, Equal equal) {
  for (Counter& counter : activity.counters) {
    std::stable_sort(counter.samples.begin(), counter.samples.end(),
                     [](const auto& a, const auto& b) { return a.wall_ns < b.wall_ns; });
  }
  auto& slices = activity.slices;
  const auto before = [](const Slice& a, const Slice& b) {
    return std::tuple(a.begin_ns, -a.duration_ns, a.track) < std::tuple(b.begin_ns, -b.duration_ns, b.track);
  };
  if (!std::is_sorted(slices.begin(), slices.end(), before)) {
    std::stable_sort(slices.begin(), slices.end(), before);
  }
  if (equal == Equal::repeated) {
    drop_repeated(activity);
  }
}

void link_launches(Activity& activity) {
  // Calls on the host by function, in order of their begins.
  std::map<std::string_view, std::vector<size_t>> by_function;
  for (size_t i = 0; i < activity.slices.size(); ++i) {
    const Slice& s = activity.slices[i];
    if (activity.tracks[s.track].kind == TrackKind::host && !activity.calls[s.call].function.empty()) {
      by_function[activity.calls[s.call].function].push_back(i);
    }
  }
  if (by_function.empty()) {
    return;
  }
  // Of each call: the calls on the host of its function, and the one to look at next.
  struct Launches {
    const std::vector<size_t>* calls = nullptr;
    size_t next = 0;
  };
  std::vector<Launches> launches(activity.calls.size());
  for (size_t i = 0; i < launches.size(); ++i) {
    const auto found = by_function.find(activity.calls[i].function);
    launches[i].calls = found == by_function.end() ? nullptr : &found->second;
  }
  uint32_t number = 1;
  for (Slice& s : activity.slices) {
    Launches& from = launches[s.call];
    if (from.calls == nullptr || is_on_host(activity.tracks[s.track].kind)) {
      continue;
    }
    const int64_t called = s.begin_ns - int64_t{s.delay_us} * 1'000;
    const auto begin_of = [&](size_t i) { return activity.slices[(*from.calls)[i]].begin_ns; };
    // The first call after this one. Delays vary, so the search goes back, too; mostly by a few calls.
    const int64_t until = called + kCallClockNs;
    const auto is_found = [&](size_t at) {
      return (at == from.calls->size() || begin_of(at) > until) && (at == 0 || begin_of(at - 1) <= until);
    };
    for (size_t steps = 0; steps < kNearCalls && !is_found(from.next); ++steps) {
      from.next += from.next < from.calls->size() && begin_of(from.next) <= until ? size_t{1} : size_t(-1);
    }
    if (!is_found(from.next)) {
      from.next = static_cast<size_t>(
          std::upper_bound(from.calls->begin(), from.calls->end(), until,
                           [&](int64_t at, size_t i) { return at < activity.slices[i].begin_ns; }) -
          from.calls->begin());
    }
    if (from.next == 0) {
      continue;
    }
    Slice& host = activity.slices[(*from.calls)[from.next - 1]];
    if (host.end_ns() + kCallClockNs < called) {
      continue;
    }
    host.launch = host.launch == 0 ? number++ : host.launch;
    s.launch = host.launch;
  }
}

double tflops_of(const Call& call, const Slice& slice) {
  return call.category == Category::matmul && slice.duration_ns > 0
             ? static_cast<double>(call.work) / static_cast<double>(slice.duration_ns) / 1e3
             : 0;
}

double bus_gb_per_s(const Call& call, const Slice& slice) {
  return call.bus_factor > 0 && slice.duration_ns > 0
             ? static_cast<double>(call.work) * call.bus_factor / static_cast<double>(slice.duration_ns)
             : 0;
}

}  // namespace xpurun::report
