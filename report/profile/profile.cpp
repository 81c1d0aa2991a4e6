#include "report/profile/profile.h"

#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace xpurun::report {

namespace {

using FunctionKey = std::tuple<std::string, std::string, int>;

template <typename Wanted>
std::vector<FunctionShare> sum_up(const Profile& profile, Wanted wanted, bool by_line = false) {
  std::map<FunctionKey, FunctionShare> sums;
  for (const ProfileTrack& track : profile.tracks) {
    if (!wanted(track)) {
      continue;
    }
    for (const auto& [stack, samples] : track.stacks) {
      std::set<FunctionKey> seen;  // a recursive function counts once per sample
      for (size_t i = 0; i < stack.size(); ++i) {
        const ProfileFrame& frame = profile.frames[stack[i]];
        const FunctionKey key{frame.function, frame.file, by_line ? frame.line : 0};
        FunctionShare& sum = sums[key];
        sum.self += i + 1 == stack.size() ? samples : 0;
        sum.total += seen.insert(key).second ? samples : 0;
      }
    }
  }
  std::vector<FunctionShare> out;
  for (auto& [key, sum] : sums) {
    std::tie(sum.function, sum.file, sum.line) = key;
    out.push_back(std::move(sum));
  }
  std::stable_sort(out.begin(), out.end(), [](const FunctionShare& a, const FunctionShare& b) {
    return std::pair(a.self, a.total) > std::pair(b.self, b.total);
  });
  return out;
}

std::map<ProfileTrack::Stack, uint64_t> renumbered(const std::map<ProfileTrack::Stack, uint64_t>& stacks,
                                                   uint32_t first) {
  std::map<ProfileTrack::Stack, uint64_t> out;
  for (const auto& [stack, samples] : stacks) {
    ProfileTrack::Stack moved = stack;
    for (uint32_t& frame : moved) {
      frame += first;
    }
    out.emplace(std::move(moved), samples);
  }
  return out;
}

}  // namespace

uint64_t ProfileTrack::samples() const {
  uint64_t sum = 0;
  for (const auto& [stack, samples] : stacks) {
    sum += samples;
  }
  return sum;
}

std::string ProfileTrack::title() const {
  const std::string who = rank == base::kNoRank ? fmt::format("pid {}", pid)
                          : worker              ? fmt::format("rank {} worker {}", rank, pid)
                                                : fmt::format("rank {}", rank);
  return fmt::format("{} / {}", who, thread);
}

uint64_t Profile::samples() const {
  uint64_t sum = 0;
  for (const ProfileTrack& track : tracks) {
    sum += track.samples();
  }
  return sum;
}

model::RankSet Profile::ranks() const {
  model::RankSet out;
  for (const ProfileTrack& track : tracks) {
    if (track.rank != base::kNoRank) {
      out.insert(track.rank);
    }
  }
  return out;
}

std::vector<FunctionShare> functions_of(const Profile& profile) {
  return sum_up(profile, [](const ProfileTrack&) { return true; });
}

std::vector<FunctionShare> functions_of(const Profile& profile, const model::RankSet& ranks) {
  return sum_up(profile, [&](const ProfileTrack& t) { return ranks.contains(t.rank); });
}

std::vector<FunctionShare> lines_of(const Profile& profile, const model::RankSet& ranks) {
  return sum_up(
      profile, [&](const ProfileTrack& t) { return ranks.contains(t.rank); }, true);
}

void mark_idle(Profile& profile, const std::map<base::Rank, GpuActivity>& gpus) {
  for (ProfileTrack& track : profile.tracks) {
    const auto gpu = gpus.find(track.rank);
    track.with_gpu = 0;
    track.idle.clear();
    if (gpu == gpus.end() || track.worker || profile.mono_ns <= 0) {
      continue;
    }
    const std::vector<Interval>& busy = gpu->second.busy;
    for (const auto& [stack, times] : track.times) {
      for (const uint32_t us : times) {
        const int64_t at = profile.mono_ns + int64_t{us} * 1000;
        if (at < gpu->second.begin_ns || at >= gpu->second.end_ns) {
          continue;
        }
        ++track.with_gpu;
        const auto next = std::upper_bound(busy.begin(), busy.end(), at,
                                           [](int64_t t, const Interval& i) { return t < i.begin; });
        if (next == busy.begin() || std::prev(next)->end <= at) {
          ++track.idle[stack];
        }
      }
    }
  }
}

Profile merged_profile(std::vector<Profile> parts) {
  Profile out = std::move(parts.front());
  for (size_t i = 1; i < parts.size(); ++i) {
    Profile& part = parts[i];
    const auto first = static_cast<uint32_t>(out.frames.size());
    out.frames.insert(out.frames.end(), std::make_move_iterator(part.frames.begin()),
                      std::make_move_iterator(part.frames.end()));
    for (ProfileTrack& track : part.tracks) {
      track.stacks = renumbered(track.stacks, first);
      track.times.clear();  // since another begin
      track.idle = renumbered(track.idle, first);
      out.tracks.push_back(std::move(track));
    }
    out.torn += part.torn;
    out.notes.insert(out.notes.end(), part.notes.begin(), part.notes.end());
  }
  return out;
}

}  // namespace xpurun::report
