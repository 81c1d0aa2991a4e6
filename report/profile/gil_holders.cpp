#include "report/profile/gil_holders.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/profile/captured_functions.h"
#include "report/profile/function_stacks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace xpurun::report {

namespace {

constexpr double kLeastShown = 0.01;
constexpr double kLeastBlamed = 0.25;  // of the time
constexpr double kMostOfOthers = 0.3;  // of what the blamed thread has

// The innermost frame of the program, else of any code.
const ProfileFrame& frame_of(const Profile& profile, const ProfileTrack::Stack& stack) {
  const auto own = std::find_if(stack.rbegin(), stack.rend(),
                                [&](uint32_t frame) { return is_own_code(profile.frames[frame]); });
  return profile.frames[own == stack.rend() ? stack.back() : *own];
}

model::GilHolder holder_of(const Profile& profile, const ProfileTrack& track, uint64_t all) {
  using Place = std::tuple<std::string, std::string, int>;
  std::map<std::pair<std::string, std::string>, uint64_t> functions;
  std::map<Place, uint64_t> lines;
  for (const auto& [stack, samples] : track.stacks) {
    if (!stack.empty()) {
      const ProfileFrame& frame = frame_of(profile, stack);
      functions[{frame.function, frame.file}] += samples;
      lines[{frame.function, frame.file, frame.line}] += samples;
    }
  }
  model::GilHolder out{.rank = track.rank,
                       .thread = track.thread,
                       .share = static_cast<double>(track.samples()) / static_cast<double>(all)};
  uint64_t most = 0;
  for (const auto& [place, samples] : functions) {
    if (samples > most) {
      most = samples;
      std::tie(out.function, out.file) = place;
    }
  }
  most = 0;
  for (const auto& [place, samples] : lines) {
    const auto& [function, file, line] = place;
    if (function == out.function && file == out.file && samples > most) {
      most = samples;
      out.line = line;
    }
  }
  return out;
}

}  // namespace

std::vector<model::GilHolder> take_gil_holders(Profile& profile) {
  std::map<base::Pid, uint64_t> samples;  // of the main threads
  for (const ProfileTrack& track : profile.tracks) {
    samples[track.pid] += track.gil_only ? 0 : track.samples();
  }
  std::vector<model::GilHolder> out;
  for (const ProfileTrack& track : profile.tracks) {
    if (!track.gil_only || track.worker || track.rank == base::kNoRank || samples[track.pid] == 0) {
      continue;
    }
    model::GilHolder holder = holder_of(profile, track, samples[track.pid]);
    if (holder.share >= kLeastShown && !holder.function.empty()) {
      out.push_back(std::move(holder));
    }
  }
  std::erase_if(profile.tracks, [](const ProfileTrack& track) { return track.gil_only; });
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.share > b.share; });
  return out;
}

const model::GilHolder* blamed_holder(const model::CaptureReport& capture, const model::RankSet& ranks) {
  const auto& all = capture.gil_holders;
  const auto found = std::find_if(all.begin(), all.end(), [&ranks](const model::GilHolder& h) {
    return ranks.empty() || ranks.contains(h.rank);
  });
  if (found == all.end() || found->share < kLeastBlamed) {
    return nullptr;
  }
  const bool alone = std::none_of(all.begin(), all.end(), [&found](const model::GilHolder& h) {
    return h.rank != found->rank && h.share > kMostOfOthers * found->share;
  });
  return alone ? &*found : nullptr;
}

std::string place_of(const model::GilHolder& holder) {
  return place_of(
      model::CapturedFunction{.function = holder.function, .file = holder.file, .line = holder.line});
}

std::string holder_words(const model::GilHolder& holder) {
  return base::tr("the thread {} of rank {} held Python's GIL for {} % of the time, in {}",
                  base::sanitize(holder.thread), holder.rank, std::lround(100 * std::min(holder.share, 1.0)),
                  place_of(holder));
}

}  // namespace xpurun::report
