// py-spy dump -j: a list of threads.
#include "common/base/strings.h"
#include "common/model/json_fields.h"
#include "report/import/readers.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <map>

namespace xpurun::report {

namespace {

using nlohmann::json;

std::string text_of(const json& j, const char* key) {
  const auto it = j.find(key);
  return it != j.end() && it->is_string() ? base::sanitize(it->get_ref<const std::string&>()) : std::string();
}

int64_t number_of(const json& j, const char* key) {
  const auto it = j.find(key);
  return it != j.end() && it->is_number_integer() ? it->get<int64_t>() : 0;
}

bool flag_of(const json& j, const char* key) {
  const auto it = j.find(key);
  return it != j.end() && it->is_boolean() && it->get<bool>();
}

int small_number(const json& j, const char* key) {
  const int64_t n = number_of(j, key);
  return n > 0 && n < INT32_MAX ? static_cast<int>(n) : 0;
}

model::Frame frame_from(const json& j) {
  model::Frame f;
  f.func = text_of(j, "name");
  f.line = small_number(j, "line");
  const std::string module = text_of(j, "module");
  const std::string file = text_of(j, "filename");
  // py-spy names a module for native frames only.
  if (module.empty()) {
    f.kind = model::FrameKind::python;
    f.file = file;
    f.entry = flag_of(j, "is_entry") || flag_of(j, "is_shim_entry");
  } else {
    f.module = base::base_name(module);
    f.file = f.line > 0 ? file : std::string();
  }
  return f;
}

}  // namespace

base::Result<Imported> read_pyspy_json(std::string_view text, const ImportHint& hint) {
  const json list = model::parse_json(text);
  if (list.is_discarded()) {
    return base::fail("not valid JSON (truncated?)");
  }
  if (!list.is_array()) {
    return base::fail("not a list of threads");
  }
  Imported out;
  std::map<int64_t, size_t> by_pid;
  size_t bad = 0;
  for (const json& thread : list) {
    const auto frames = thread.is_object() ? thread.find("frames") : thread.end();
    if (!thread.is_object() || frames == thread.end() || !frames->is_array()) {
      ++bad;
      continue;
    }
    const int64_t pid = number_of(thread, "pid");
    const auto [at, is_new] = by_pid.emplace(pid, out.processes.size());
    if (is_new) {
      out.processes.push_back(imported_process(hint));
      out.processes.back().pid = static_cast<base::Pid>(pid);
    }
    model::ThreadStack t;
    t.tid = static_cast<base::Tid>(number_of(thread, "os_thread_id"));
    t.thread_id = static_cast<uint64_t>(number_of(thread, "thread_id"));
    t.python_name = text_of(thread, "thread_name");
    t.state = flag_of(thread, "active") ? 'R' : 'S';
    t.gil = flag_of(thread, "owns_gil") ? model::GilState::holder : model::GilState::none;
    for (const json& f : *frames) {
      if (f.is_object()) {
        t.frames.push_back(frame_from(f));
      }
    }
    out.processes[at->second].threads.push_back(std::move(t));
  }
  if (bad > 0) {
    out.notes.push_back(fmt::format("{} entries are not threads", bad));
  }
  if (out.processes.empty()) {
    return base::fail(bad > 0 ? out.notes.front() : "it holds no threads");
  }
  for (model::ProcessStacks& p : out.processes) {
    choose_main_thread(p);
  }
  return out;
}

}  // namespace xpurun::report
