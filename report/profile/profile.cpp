#include "report/profile/profile.h"

#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace xpurun::report {

namespace {

using FunctionKey = std::pair<std::string, std::string>;

template <typename Wanted>
std::vector<FunctionShare> sum_up(const Profile& profile, Wanted wanted) {
  std::map<FunctionKey, FunctionShare> sums;
  for (const ProfileTrack& track : profile.tracks) {
    if (!wanted(track)) {
      continue;
    }
    for (const auto& [stack, samples] : track.stacks) {
      std::set<FunctionKey> seen;  // a recursive function counts once per sample
      for (size_t i = 0; i < stack.size(); ++i) {
        const ProfileFrame& frame = profile.frames[stack[i]];
        const FunctionKey key{frame.function, frame.file};
        FunctionShare& sum = sums[key];
        sum.self += i + 1 == stack.size() ? samples : 0;
        sum.total += seen.insert(key).second ? samples : 0;
      }
    }
  }
  std::vector<FunctionShare> out;
  for (auto& [key, sum] : sums) {
    sum.function = key.first;
    sum.file = key.second;
    out.push_back(std::move(sum));
  }
  std::stable_sort(out.begin(), out.end(), [](const FunctionShare& a, const FunctionShare& b) {
    return std::pair(a.self, a.total) > std::pair(b.self, b.total);
  });
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

Profile merged_profile(std::vector<Profile> parts) {
  Profile out = std::move(parts.front());
  for (size_t i = 1; i < parts.size(); ++i) {
    Profile& part = parts[i];
    const auto first = static_cast<uint32_t>(out.frames.size());
    out.frames.insert(out.frames.end(), std::make_move_iterator(part.frames.begin()),
                      std::make_move_iterator(part.frames.end()));
    for (ProfileTrack& track : part.tracks) {
      std::map<std::vector<uint32_t>, uint64_t> stacks;
      for (const auto& [stack, samples] : track.stacks) {
        std::vector<uint32_t> renumbered = stack;
        for (uint32_t& frame : renumbered) {
          frame += first;
        }
        stacks.emplace(std::move(renumbered), samples);
      }
      track.stacks = std::move(stacks);
      out.tracks.push_back(std::move(track));
    }
    out.torn += part.torn;
    out.notes.insert(out.notes.end(), part.notes.begin(), part.notes.end());
  }
  return out;
}

}  // namespace xpurun::report
