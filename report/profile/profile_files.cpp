// The profile as files of other tools.
#include "common/base/strings.h"
#include "common/model/frame_text.h"
#include "common/model/json/json_text.h"
#include "report/flamegraph/palette.h"
#include "report/profile/profile.h"
#include "report/tree/folded.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <utility>

namespace xpurun::report {

namespace {

using Json = nlohmann::ordered_json;

std::string label_of(const ProfileFrame& frame) {
  return frame.file.empty() ? frame.function
                            : fmt::format("{} ({})", frame.function, model::source_name(frame.file));
}

Json frame_list(const Profile& profile) {
  Json out = Json::array();
  for (const ProfileFrame& frame : profile.frames) {
    Json j;
    j["name"] = frame.function;
    j["file"] = frame.file;
    if (frame.line > 0) {
      j["line"] = frame.line;
    }
    out.push_back(std::move(j));
  }
  return out;
}

using Stacks = std::map<std::vector<uint32_t>, uint64_t>;

Json sampled(const std::string& name, const Stacks& stacks, uint64_t all, double interval_s) {
  Json j;
  j["type"] = "sampled";
  j["name"] = name;
  j["unit"] = "seconds";
  j["startValue"] = 0;
  j["endValue"] = static_cast<double>(all) * interval_s;
  j["samples"] = Json::array();
  j["weights"] = Json::array();
  for (const auto& [stack, samples] : stacks) {
    j["samples"].push_back(stack);
    j["weights"].push_back(static_cast<double>(samples) * interval_s);
  }
  return j;
}

// All tracks of these ranks as one, and its samples.
std::pair<Stacks, uint64_t> sum_of(const Profile& profile, const model::RankSet& ranks) {
  std::pair<Stacks, uint64_t> out;
  for (const ProfileTrack& track : profile.tracks) {
    if (ranks.contains(track.rank)) {
      for (const auto& [stack, samples] : track.stacks) {
        out.first[stack] += samples;
        out.second += samples;
      }
    }
  }
  return out;
}

}  // namespace

std::string profile_folded(const Profile& profile) {
  std::map<std::string, uint64_t> lines;  // frames that differ in the line alone are one
  for (const ProfileTrack& track : profile.tracks) {
    for (const auto& [stack, samples] : track.stacks) {
      std::string line = folded_name(track.title());
      for (const uint32_t frame : stack) {
        line += ';';
        line += folded_name(label_of(profile.frames[frame]));
      }
      lines[line] += samples;
    }
  }
  std::string out;
  for (const auto& [line, samples] : lines) {
    out += fmt::format("{} {}\n", line, samples);
  }
  return out;
}

std::string profile_speedscope(const Profile& profile, const model::RankSet& compared) {
  Json profiles = Json::array();
  if (!compared.empty()) {
    const model::RankSet others = profile.ranks().minus(compared);
    for (const model::RankSet* ranks : {&compared, &others}) {
      const auto [stacks, samples] = sum_of(profile, *ranks);
      profiles.push_back(sampled(ranks_text(*ranks), stacks, samples, profile.interval_s));
    }
  }
  for (const ProfileTrack& track : profile.tracks) {
    profiles.push_back(sampled(track.title(), track.stacks, track.samples(), profile.interval_s));
  }
  Json out;
  out["$schema"] = "https://www.speedscope.app/file-format-schema.json";
  out["shared"]["frames"] = frame_list(profile);
  out["profiles"] = std::move(profiles);
  out["name"] = profile.about;
  out["activeProfileIndex"] = 0;
  out["exporter"] = "xpurun@" XPURUN_VERSION;
  return model::json_text(out) + '\n';
}

}  // namespace xpurun::report
