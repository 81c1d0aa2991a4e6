// py-spy dump, and the text of Python's faulthandler.
#include "common/base/strings.h"
#include "common/model/secrets/redact.h"
#include "report/import/line_notes.h"
#include "report/import/readers.h"

#include <optional>

namespace xpurun::report {

namespace {

constexpr std::string_view kFaulthandler = "(most recent call first):";

// 'Thread 9822 (idle): "Wörker"', 'Thread 0x7F2E (active+gil)'
std::optional<model::ThreadStack> pyspy_thread_header(std::string_view line) {
  line.remove_prefix(std::string_view("Thread ").size());
  const size_t open = line.find(" (");
  if (open == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view id = line.substr(0, open);
  const size_t close = line.find(')', open);
  if (close == std::string_view::npos) {
    return std::nullopt;
  }
  model::ThreadStack t;
  if (id.starts_with("0x")) {
    t.thread_id = base::parse_hex(id.substr(2)).value_or(0);
  } else if (const auto tid = base::parse_int(id)) {
    t.tid = static_cast<base::Tid>(*tid);
  } else {
    return std::nullopt;
  }
  const std::string_view state = line.substr(open + 2, close - open - 2);
  t.state = state.starts_with("active") ? 'R' : 'S';
  t.gil = state.find("gil") != std::string_view::npos ? model::GilState::holder : model::GilState::none;
  const size_t quote = line.find('"', close);
  if (quote != std::string_view::npos && line.ends_with('"') && quote + 1 < line.size()) {
    t.python_name = base::sanitize(line.substr(quote + 1, line.size() - quote - 2));
  }
  return t;
}

// 'Thread 0x00007f0b (most recent call first):', of 3.14 on with the thread's name behind the number
std::optional<model::ThreadStack> faulthandler_header(std::string_view line) {
  const size_t at = line.find("Thread 0x") == 0 ? 9 : line.find("thread 0x") + 9;
  const size_t end = std::min(line.find(' ', at), line.size());
  const auto id = base::parse_hex(line.substr(at, end - at));
  return id ? std::optional(model::ThreadStack{.thread_id = *id}) : std::nullopt;
}

// '  File "/home/me/train.py", line 7 in main'
std::optional<model::Frame> faulthandler_frame(std::string_view line) {
  constexpr std::string_view kFile = "File \"";
  constexpr std::string_view kLine = "\", line ";
  line = base::trim(line);
  const size_t middle = line.rfind(kLine);
  const size_t in = line.rfind(" in ");
  if (!line.starts_with(kFile) || middle == line.npos || in == line.npos || in < middle) {
    return std::nullopt;
  }
  const size_t number = middle + kLine.size();
  const auto at = base::parse_int(line.substr(number, in - number));
  model::Frame f{.kind = model::FrameKind::python,
                 .func = base::sanitize(line.substr(in + 4)),
                 .file = base::sanitize(line.substr(kFile.size(), middle - kFile.size()))};
  f.line = at && *at > 0 && *at < INT32_MAX ? static_cast<int>(*at) : 0;
  return f;
}

size_t indent_of(std::string_view line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

}  // namespace

bool is_python_text(std::string_view head) {
  bool after_thread = false;  // of py-spy, without its first lines
  for (const std::string_view line : base::split(head, '\n')) {
    if (line.find(kFaulthandler) != line.npos || (after_thread && line.starts_with("    "))) {
      return true;
    }
    after_thread = line.starts_with("Thread ") && pyspy_thread_header(line);
  }
  return head.find("\nPython v") != head.npos || head.starts_with("Python v");
}

base::Result<Imported> read_pyspy_text(std::string_view text, const ImportHint& hint) {
  constexpr size_t kFrameIndent = 4;  // deeper lines are arguments and locals
  Imported out;
  LineNotes notes;
  size_t line_number = 0;
  model::ThreadStack* thread = nullptr;
  for (std::string_view line : base::split(text, '\n')) {
    ++line_number;
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    if (line.starts_with("Process ")) {
      const size_t colon = std::min(line.find(':'), line.size());
      const auto pid = base::parse_int(line.substr(8, colon - 8));
      out.processes.push_back(imported_process(hint));
      out.processes.back().pid = static_cast<base::Pid>(pid.value_or(0));
      if (colon + 2 < line.size()) {
        out.processes.back().cmdline = {model::redact_text(base::sanitize(line.substr(colon + 2)))};
      }
      thread = nullptr;
    } else if (line.starts_with("Python v") && !out.processes.empty()) {
      const size_t end = std::min(line.find(' ', 8), line.size());
      out.processes.back().python_version = base::sanitize(line.substr(8, end - 8));
    } else if (line.starts_with("Thread ") || line.starts_with("Current thread 0x")) {
      auto header = line.ends_with(kFaulthandler) ? faulthandler_header(line) : pyspy_thread_header(line);
      if (!header) {
        notes.add(line_number, "not understood");
        thread = nullptr;
        continue;
      }
      if (out.processes.empty()) {
        out.processes.push_back(imported_process(hint));
      }
      auto& threads = out.processes.back().threads;
      threads.push_back(std::move(*header));
      thread = &threads.back();
    } else if (indent_of(line) == kFrameIndent && thread != nullptr && kFrameIndent < line.size()) {
      thread->frames.push_back(frame_from_label(base::sanitize(line)));
    } else if (auto frame = thread != nullptr ? faulthandler_frame(line) : std::nullopt) {
      thread->frames.push_back(std::move(*frame));
    }
  }
  std::erase_if(out.processes, [](const model::ProcessStacks& p) { return p.threads.empty(); });
  out.notes = notes.take();
  if (out.processes.empty()) {
    return base::fail("it holds no threads (truncated?)");
  }
  for (model::ProcessStacks& p : out.processes) {
    choose_main_thread(p);
  }
  return out;
}

}  // namespace xpurun::report
