// pystack remote: outermost frame first.
#include "common/base/strings.h"
#include "report/import/line_notes.h"
#include "report/import/readers.h"

#include <algorithm>
#include <optional>

namespace xpurun::report {

namespace {

constexpr std::string_view kThread = "Traceback for thread ";

// "9824 (python) [Has the GIL,Garbage collecting] (most recent call last):"
std::optional<model::ThreadStack> pystack_thread_header(std::string_view line) {
  line.remove_prefix(line.find(kThread) + kThread.size());
  const size_t end = std::min(line.find(' '), line.size());
  const auto tid = base::parse_int(line.substr(0, end));
  if (!tid) {
    return std::nullopt;
  }
  model::ThreadStack t;
  t.tid = static_cast<base::Tid>(*tid);
  const size_t open = line.find(" (");
  const size_t flags = line.rfind(" [");
  if (open != std::string_view::npos && flags != std::string_view::npos && flags > open + 3) {
    t.comm = base::sanitize(line.substr(open + 2, flags - open - 3));
    const std::string_view marks = line.substr(flags);
    if (marks.find("Has the GIL") != std::string_view::npos) {
      t.gil = model::GilState::holder;
    } else if (marks.find("Waiting for the GIL") != std::string_view::npos) {
      t.gil = model::GilState::waiting;
    }
    t.gc = marks.find("Garbage collecting") != std::string_view::npos;
  }
  return t;
}

// '(C) File "a.c", line 442, in start_thread (/usr/lib/libc.so.6)'
std::optional<model::Frame> pystack_frame_line(std::string_view line) {
  constexpr std::string_view kFile = "File \"";
  constexpr std::string_view kLine = "\", line ";
  constexpr std::string_view kIn = ", in ";
  const size_t file = line.find(kFile);
  const size_t number = line.find(kLine, file == std::string_view::npos ? 0 : file);
  if (file == std::string_view::npos || number == std::string_view::npos) {
    return std::nullopt;
  }
  const size_t in = line.find(kIn, number);
  if (in == std::string_view::npos) {
    return std::nullopt;
  }
  model::Frame f;
  f.file = base::sanitize(line.substr(file + kFile.size(), number - file - kFile.size()));
  const auto n = base::parse_int(line.substr(number + kLine.size(), in - number - kLine.size()));
  f.line = n && *n > 0 && *n < INT32_MAX ? static_cast<int>(*n) : 0;
  std::string_view func = line.substr(in + kIn.size());
  if (line.starts_with("(Python)")) {
    f.kind = model::FrameKind::python;
  } else if (const size_t open = func.rfind(" ("); open != std::string_view::npos && func.ends_with(')')) {
    f.module = base::sanitize(base::base_name(func.substr(open + 2, func.size() - open - 3)));
    func = func.substr(0, open);
    if (f.line == 0) {
      f.file.clear();
    }
  }
  f.func = base::sanitize(func);
  return f;
}

}  // namespace

base::Result<Imported> read_pystack_text(std::string_view text, const ImportHint& hint) {
  LineNotes notes;
  model::ProcessStacks process = imported_process(hint);
  size_t line_number = 0;
  bool in_thread = false;
  for (std::string_view line : base::split(text, '\n')) {
    ++line_number;
    const std::string_view words = base::trim(line);
    if (words.starts_with(kThread)) {
      auto header = pystack_thread_header(words);
      in_thread = header.has_value();
      if (header) {
        process.threads.push_back(std::move(*header));
      } else {
        notes.add(line_number, "no thread id");
      }
    } else if (in_thread && (words.starts_with("(Python)") || words.starts_with("(C)"))) {
      if (auto f = pystack_frame_line(words)) {
        process.threads.back().frames.push_back(std::move(*f));
      } else {
        notes.add(line_number, "not understood (truncated?)");
      }
    }
  }
  for (model::ThreadStack& t : process.threads) {
    std::reverse(t.frames.begin(), t.frames.end());
  }
  return only_process(std::move(process), notes.take());
}

}  // namespace xpurun::report
