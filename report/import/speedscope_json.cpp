// Profiles of speedscope, with samples or with events: every different stack is a thread.
#include "common/base/strings.h"
#include "common/model/json_fields.h"
#include "report/import/readers.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <set>
#include <utility>

namespace xpurun::report {

namespace {

using nlohmann::json;

constexpr size_t kMostStacks = 100'000;
constexpr size_t kDeepestProfileStack = 10'000;

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

// The stacks of a profile, each once.
class ProfileReader {
 public:
  ProfileReader(model::ProcessStacks& process, const std::vector<model::Frame>& frames)
      : process_(process), frames_(frames) {}

  // False: the profile has neither samples nor events.
  bool read(const json& profile) {
    known_.clear();
    name_ = profile.is_object() ? text_at(profile, "name") : "";
    for (const auto& [key, add] :
         {std::pair("samples", &ProfileReader::add_sample), {"events", &ProfileReader::add_event}}) {
      if (const json list = profile.is_object() ? profile.value(key, json()) : json(); list.is_array()) {
        open_.clear();
        for (const json& one : list) {
          (this->*add)(one);
        }
        keep(std::exchange(grown_, false) ? open_ : std::vector<size_t>());
        return true;
      }
    }
    return false;
  }
  size_t damaged() const { return damaged_; }

 private:
  void push(const json& index, std::vector<size_t>& to) {
    if (index.is_number_unsigned() && index.get<size_t>() < frames_.size() &&
        to.size() < kDeepestProfileStack) {
      to.push_back(index.get<size_t>());
    } else {
      ++damaged_;
    }
  }

  void add_sample(const json& sample) {
    std::vector<size_t> stack;
    for (const json& index : sample.is_array() ? sample : json::array()) {
      push(index, stack);
    }
    keep(stack);
  }

  // A frame opens or closes. What was deepest before a frame closes is a stack.
  void add_event(const json& event) {
    const std::string type = event.is_object() ? text_at(event, "type") : "";
    if (type == "O") {
      push(event.value("frame", json()), open_);
      grown_ = true;
    } else if (type == "C" && !open_.empty()) {
      keep(std::exchange(grown_, false) ? open_ : std::vector<size_t>());
      open_.pop_back();
    } else {
      ++damaged_;
    }
  }

  void keep(const std::vector<size_t>& stack) {
    if (stack.empty() || process_.threads.size() >= kMostStacks || !known_.insert(stack).second) {
      return;
    }
    model::ThreadStack thread;
    thread.tid = static_cast<base::Tid>(process_.threads.size() + 1);
    thread.main = true;
    thread.python_name = name_;
    for (auto index = stack.rbegin(); index != stack.rend(); ++index) {
      thread.frames.push_back(frames_[*index]);
    }
    process_.threads.push_back(std::move(thread));
  }

  model::ProcessStacks& process_;
  const std::vector<model::Frame>& frames_;
  std::string name_;
  std::set<std::vector<size_t>> known_;
  std::vector<size_t> open_;  // outermost first
  bool grown_ = false;        // since a frame has closed
  size_t damaged_ = 0;
};

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
  ProfileReader reader(process, frames);
  for (const json& profile : j["profiles"]) {
    if (!reader.read(profile)) {
      notes.push_back(fmt::format("profile \"{}\" has no samples and is left out",
                                  profile.is_object() ? text_at(profile, "name") : ""));
    }
  }
  if (reader.damaged() > 0) {
    notes.push_back(fmt::format("{} frames or events are wrong and left out", reader.damaged()));
  }
  if (!process.threads.empty()) {
    notes.emplace_back("its weights are not shown: widths are ranks or processes");
  }
  return only_process(std::move(process), std::move(notes));
}

}  // namespace xpurun::report
