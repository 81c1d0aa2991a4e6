#include "launcher/watch/helper_progress.h"

#include <algorithm>

namespace xpurun::launcher {

using model::HelperLife;

namespace {

constexpr size_t kRateWindow = 8;           // samples over which rates are taken
constexpr size_t kLeastPoints = 3;          // a rate needs at least this many samples
constexpr double kWorkShare = 0.1;          // of a core: a working thread or process
constexpr double kSomeShare = 0.02;         // above the cost of waking up to check the time
constexpr double kWorkBytesPerS = 1 << 20;  // files read and written
constexpr double kSomeBytesPerS = 64 << 10;
constexpr size_t kPositions = 8;  // that a thread may come back to

}  // namespace

void HelperProgress::judge(Track& track) const {
  const Point& first = track.points.front();
  const Point& last = track.points.back();
  const double seconds = base::ns_to_s(last.at - first.at);
  double bytes_per_s = 0;
  track.helper.cpu_share = 0;
  if (track.points.size() >= kLeastPoints && seconds > 0) {
    track.helper.cpu_share = std::max(0.0, last.cpu_s - first.cpu_s) / seconds;
    bytes_per_s = static_cast<double>(last.io_bytes - std::min(first.io_bytes, last.io_bytes)) / seconds;
  }
  const double share = track.helper.cpu_share;
  const bool moved =
      std::any_of(track.points.begin(), track.points.end(), [](const Point& p) { return p.moved; });
  const bool computes = share >= kWorkShare;
  // Without a readable position, CPU time is the only sign of progress.
  const bool works = (computes && (moved || !track.has_position)) || bytes_per_s >= kWorkBytesPerS;
  // Each task comes and goes through a pipe, however long it computes at one place.
  const bool has_tasks = last.io_bytes > first.io_bytes && !track.loops;
  const bool stirs =
      moved || share >= (track.loops ? kWorkShare : kSomeShare) || bytes_per_s >= kSomeBytesPerS;
  const bool stirred =
      track.helper.bond == HelperBond::thread && track.moved_at != 0 && last.at - track.moved_at < memory_;
  bool working = false;
  switch (track.helper.bond) {
    case HelperBond::thread:
      // File I/O is known per process only.
      working = computes && moved;
      break;
    case HelperBond::awaited:
      // Long computation at one position counts as busy, as for a rank.
      working = works || moved || has_tasks || (stirs && !(computes && track.has_position));
      break;
    case HelperBond::pool:
      working = works || moved || has_tasks;
      break;
    case HelperBond::other:
      working = works;
      break;
  }
  track.helper.life = working            ? HelperLife::working
                      : stirs || stirred ? HelperLife::stirring
                                         : HelperLife::still;
}

// A thread that only checks and sleeps comes back to each position, all variables unchanged.
bool HelperProgress::moves(Track& track, const HelperSample& sample, bool is_new) {
  const bool differs = sample.position != track.position;
  const auto before = std::find(track.had.begin(), track.had.end(), sample.position);
  const bool again = sample.bond == HelperBond::thread && before != track.had.end();
  if (before == track.had.end()) {
    track.had.push_back(sample.position);
    if (track.had.size() > kPositions) {
      track.had.pop_front();
    }
  }
  return !is_new && differs && !again;
}

void HelperProgress::update(base::MonoNs now, std::span<const HelperSample> samples) {
  std::erase_if(tracks_, [&](const auto& entry) {
    return std::none_of(samples.begin(), samples.end(),
                        [&](const HelperSample& s) { return s.key == entry.first; });
  });
  for (const HelperSample& s : samples) {
    const auto [it, is_new] = tracks_.try_emplace(s.key);
    Track& track = it->second;
    const bool moved = moves(track, s, is_new);
    track.moved_at = moved ? now : track.moved_at;
    track.helper.bond = s.bond;
    track.has_position = s.has_position;
    track.loops = s.loops;
    track.position = s.position;
    track.points.push_back({.at = now, .cpu_s = s.cpu_s, .io_bytes = s.io_bytes, .moved = moved});
    if (track.points.size() > kRateWindow) {
      track.points.pop_front();
    }
    judge(track);
    if (is_new || moved || (!s.has_position && track.helper.life != HelperLife::still)) {
      track.helper.last_motion = now;
    }
  }
}

HelperLife HelperProgress::life() const {
  HelperLife out = HelperLife::still;
  for (const auto& [key, track] : tracks_) {
    out = std::max(out, track.helper.life);
  }
  return out;
}

std::map<HelperKey, HelperProgress::Helper> HelperProgress::helpers() const {
  std::map<HelperKey, Helper> out;
  for (const auto& [key, track] : tracks_) {
    out.emplace(key, track.helper);
  }
  return out;
}

}  // namespace xpurun::launcher
