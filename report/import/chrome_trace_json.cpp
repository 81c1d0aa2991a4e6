// Stacks in trace events of Chrome's form, as py-spy's "record --format chrometrace" writes them: every
// different stack is a thread.
#include "common/base/strings.h"
#include "common/model/json_fields.h"
#include "report/import/readers.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace xpurun::report {

namespace {

using nlohmann::json;

constexpr size_t kMostEventStacks = 100'000;
constexpr size_t kDeepestStack = 10'000;

const json& part(const json& object, const char* key) {
  static const json kNone;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : kNone;
}

std::string event_text(const json& object, const char* key) {
  const json& value = part(object, key);
  return value.is_string() ? base::sanitize(value.get<std::string>()) : "";
}

int64_t event_number(const json& object, const char* key) {
  const json& value = part(object, key);
  return value.is_number_integer() ? value.get<int64_t>() : 0;
}

// The file and the line are arguments in py-spy's events.
model::Frame frame_of_event(const json& event) {
  const json& arguments = part(event, "args");
  model::Frame out = frame_from_label(event_text(event, "name"));
  if (const std::string file = event_text(arguments, "filename"); !file.empty()) {
    out.func = event_text(event, "name");
    out.file = file;
    out.line = static_cast<int>(event_number(arguments, "line"));
    out.kind =
        file.ends_with(".py") || file.starts_with('<') ? model::FrameKind::python : model::FrameKind::native;
  }
  return out;
}

class StackReader {
 public:
  explicit StackReader(const ImportHint& hint) : process_(imported_process(hint)) {}

  void add(const json& event) {
    const std::string phase = event_text(event, "ph");
    auto& open = open_[{event_number(event, "pid"), event_number(event, "tid")}];
    if (phase == "B" && open.frames.size() < kDeepestStack) {
      open.frames.push_back(frame_of_event(event));
      open.grown = true;
    } else if (phase == "E") {
      if (open.frames.empty()) {
        ++damaged_;
        return;
      }
      keep(open.frames, std::exchange(open.grown, false));
      open.frames.pop_back();
    }
    process_.pid = process_.pid != 0 ? process_.pid : static_cast<base::Pid>(event_number(event, "pid"));
  }

  base::Result<Imported> finish() {
    for (auto& [thread, open] : open_) {
      keep(open.frames, open.grown);
    }
    std::vector<std::string> notes;
    if (damaged_ > 0) {
      notes.push_back(fmt::format("{} ends have no begin", damaged_));
    }
    if (!process_.threads.empty()) {
      notes.emplace_back("its durations are not shown: widths are ranks or processes");
    }
    return only_process(std::move(process_), std::move(notes));
  }

 private:
  struct Open {
    std::vector<model::Frame> frames;  // outermost first
    bool grown = false;                // since the last end
  };

  void keep(const std::vector<model::Frame>& frames, bool grown) {
    if (!grown || frames.empty() || process_.threads.size() >= kMostEventStacks) {
      return;
    }
    std::string known;
    for (const model::Frame& f : frames) {
      known += fmt::format("{}\n{}:{}\n", f.func, f.file, f.line);
    }
    if (!known_.insert(std::move(known)).second) {
      return;
    }
    model::ThreadStack thread;
    thread.tid = static_cast<base::Tid>(process_.threads.size() + 1);
    thread.main = true;
    thread.frames.assign(frames.rbegin(), frames.rend());
    process_.threads.push_back(std::move(thread));
  }

  model::ProcessStacks process_;
  std::map<std::pair<int64_t, int64_t>, Open> open_;  // by process and thread
  std::set<std::string> known_;
  size_t damaged_ = 0;
};

}  // namespace

base::Result<Imported> read_chrome_stacks(std::string_view text, const ImportHint& hint) {
  const json whole = model::parse_json(text);
  const json& events = whole.is_array() ? whole : part(whole, "traceEvents");
  if (!events.is_array()) {
    return base::fail("there is no list of events");
  }
  StackReader reader(hint);
  for (const json& event : events) {
    reader.add(event);
  }
  return reader.finish();
}

}  // namespace xpurun::report
