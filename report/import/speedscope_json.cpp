// Sampled profiles of speedscope: every different stack is a thread.
#include "common/base/strings.h"
#include "common/model/json_fields.h"
#include "report/import/readers.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <set>

namespace xpurun::report {

namespace {

using nlohmann::json;

constexpr size_t kMostStacks = 100'000;

std::string text_at(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? base::sanitize(found->get<std::string>()) : "";
}

std::vector<model::Frame> frames_of(const json& shared) {
  std::vector<model::Frame> out;
  for (const json& frame : shared) {
    model::Frame f{.kind = model::FrameKind::python};
    if (frame.is_object()) {
      f.func = text_at(frame, "name");
      f.file = text_at(frame, "file");
      const auto line = frame.find("line");
      f.line = line != frame.end() && line->is_number_integer() ? line->get<int>() : 0;
      f.kind = f.file.empty() ? model::FrameKind::native : model::FrameKind::python;
    }
    out.push_back(std::move(f));
  }
  return out;
}

}  // namespace

base::Result<Imported> read_speedscope(std::string_view text, const ImportHint& hint) {
  const json j = model::parse_json(text);
  if (!j.is_object() || !j.contains("shared") || !j["shared"].is_object() ||
      !j["shared"].value("frames", json()).is_array() || !j.value("profiles", json()).is_array()) {
    return base::fail("it is no profile of speedscope");
  }
  const std::vector<model::Frame> frames = frames_of(j["shared"]["frames"]);
  model::ProcessStacks process = imported_process(hint);
  std::vector<std::string> notes;
  size_t damaged = 0;
  for (const json& profile : j["profiles"]) {
    const json samples = profile.is_object() ? profile.value("samples", json()) : json();
    if (!samples.is_array()) {
      notes.push_back(fmt::format("profile \"{}\" has no samples and is left out",
                                  profile.is_object() ? text_at(profile, "name") : ""));
      continue;
    }
    std::set<std::vector<size_t>> known;
    for (const json& sample : samples) {
      std::vector<size_t> stack;
      for (const json& index : sample.is_array() ? sample : json::array()) {
        if (index.is_number_unsigned() && index.get<size_t>() < frames.size()) {
          stack.push_back(index.get<size_t>());
        } else {
          ++damaged;
        }
      }
      if (stack.empty() || process.threads.size() >= kMostStacks || !known.insert(stack).second) {
        continue;
      }
      model::ThreadStack thread;
      thread.tid = static_cast<base::Tid>(process.threads.size() + 1);
      thread.main = true;
      thread.python_name = text_at(profile, "name");
      for (auto index = stack.rbegin(); index != stack.rend(); ++index) {
        thread.frames.push_back(frames[*index]);
      }
      process.threads.push_back(std::move(thread));
    }
  }
  if (damaged > 0) {
    notes.push_back(fmt::format("{} frames are not in the list of frames", damaged));
  }
  if (!process.threads.empty()) {
    notes.emplace_back("its weights are not shown: widths are ranks or processes");
  }
  return only_process(std::move(process), std::move(notes));
}

}  // namespace xpurun::report
