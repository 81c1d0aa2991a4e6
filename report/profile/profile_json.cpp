// The profile as JSON of xpurun, schema "xpurun.profile/1".
#include "common/model/json/json_text.h"
#include "common/model/json_fields.h"
#include "common/model/speed/capture_report.h"
#include "report/profile/profile.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace xpurun::report {

namespace {

using Json = nlohmann::ordered_json;
using model::integer;
using model::member;
using nlohmann::json;

constexpr size_t kDeepestStack = 10'000;
constexpr int64_t kLatestWallNs = int64_t{4'000'000'000} * 1'000'000'000;  // in the year 2096
constexpr double kLongestS = 1e7;

std::string text_at(const json& object, const char* key) {
  const json* value = member(object, key);
  return value == nullptr ? std::string() : value->get<std::string>();
}

double number_at(const json& object, const char* key) {
  const json* value = member(object, key);
  return value == nullptr ? 0 : value->get<double>();
}

std::vector<uint32_t> stack_from(const json& frames, size_t known) {
  std::vector<uint32_t> out;
  if (frames.size() > kDeepestStack) {
    throw std::runtime_error("a stack is too deep");
  }
  for (const json& frame : frames) {
    out.push_back(model::to_integer<uint32_t>(frame));
    if (out.back() >= known) {
      throw std::runtime_error("a stack names a frame that is not there");
    }
  }
  return out;
}

// Each time after the first is the distance from the time before.
void times_from(const json& distances, std::vector<uint32_t>& out) {
  uint64_t at = 0;
  for (const json& distance : distances) {
    at += model::to_uint64(distance);
    if (at > UINT32_MAX) {
      throw std::runtime_error("its times make no sense");
    }
    out.push_back(static_cast<uint32_t>(at));
  }
}

Json distances_of(const std::vector<uint32_t>& times) {
  Json out = Json::array();
  uint32_t before = 0;
  for (const uint32_t at : times) {
    out.push_back(at - before);
    before = at;
  }
  return out;
}

ProfileTrack track_from(const json& j, size_t frames) {
  ProfileTrack out{.rank = integer<base::Rank>(j, "rank", base::kNoRank),
                   .pid = integer<base::Pid>(j, "pid", 0),
                   .worker = j.value("worker", false),
                   .thread = text_at(j, "thread"),
                   .gil_only = j.value("gil_only", false)};
  for (const json& entry : j.at("stacks")) {
    const std::vector<uint32_t> stack = stack_from(entry.at(0), frames);
    out.stacks[stack] += model::to_uint64(entry.at(1));
    if (entry.size() > 2) {
      times_from(entry.at(2), out.times[stack]);
    }
  }
  return out;
}

void check_times(const Profile& p) {
  const bool plausible = p.wall_ns >= 0 && p.wall_ns <= kLatestWallNs && p.seconds >= 0 &&
                         p.seconds <= kLongestS && p.interval_s >= 0 && p.interval_s <= kLongestS;
  if (!plausible) {
    throw std::runtime_error("its times make no sense");
  }
}

Profile profile_from(const json& j) {
  if (!j.is_object() || text_at(j, "schema") != model::kProfileSchema) {
    throw std::runtime_error(fmt::format("no profile ({})", model::kProfileSchema));
  }
  Profile out{.about = text_at(j, "about"),
              .host = text_at(j, "host"),
              .reason = text_at(j, "reason"),
              .wall_ns = integer<int64_t>(j, "begin_wall_ns", 0),
              .mono_ns = integer<base::MonoNs>(j, "begin_mono_ns", 0),
              .interval_s = number_at(j, "interval_s"),
              .seconds = number_at(j, "seconds"),
              .torn = integer<uint64_t>(j, "torn", 0)};
  check_times(out);
  for (const json& f : j.at("frames")) {
    out.frames.push_back(
        {.function = text_at(f, "function"), .file = text_at(f, "file"), .line = integer<int>(f, "line", 0)});
  }
  for (const json& t : j.at("tracks")) {
    out.tracks.push_back(track_from(t, out.frames.size()));
  }
  for (const json& note : j.at("notes")) {
    out.notes.push_back(note.get<std::string>());
  }
  return out;
}

}  // namespace

std::string profile_json(const Profile& profile) {
  Json j{{"schema", model::kProfileSchema},
         {"about", profile.about},
         {"host", profile.host},
         {"reason", profile.reason},
         {"begin_wall_ns", profile.wall_ns},
         {"begin_mono_ns", profile.mono_ns},
         {"seconds", profile.seconds},
         {"interval_s", profile.interval_s},
         {"torn", profile.torn},
         {"notes", profile.notes}};
  Json& frames = j["frames"] = Json::array();
  for (const ProfileFrame& f : profile.frames) {
    frames.push_back({{"function", f.function}, {"file", f.file}, {"line", f.line}});
  }
  Json& tracks = j["tracks"] = Json::array();
  for (const ProfileTrack& t : profile.tracks) {
    Json stacks = Json::array();
    for (const auto& [stack, samples] : t.stacks) {
      stacks.push_back(Json::array({stack, samples}));
      if (const auto times = t.times.find(stack); times != t.times.end()) {
        stacks.back().push_back(distances_of(times->second));
      }
    }
    tracks.push_back({{"rank", model::rank_or_null(t.rank)},
                      {"pid", t.pid},
                      {"worker", t.worker},
                      {"thread", t.thread},
                      {"stacks", std::move(stacks)}});
    if (t.gil_only) {
      tracks.back()["gil_only"] = true;
    }
  }
  return model::json_text(j) + "\n";
}

base::Result<Profile> profile_from_json(std::string_view text) {
  const json j = model::parse_json(text);
  try {
    return profile_from(j);
  } catch (const std::exception& e) {  // of nlohmann-json, too
    return base::fail(fmt::format("not a profile: {}", e.what()));
  }
}

}  // namespace xpurun::report
