// gdb's `thread apply all bt`, pstack, eu-stack: "#3  0x7f in func (args) at file:12" and relatives.
#include "common/base/strings.h"
#include "report/import/line_notes.h"
#include "report/import/readers.h"

#include <fmt/format.h>

#include <optional>

namespace xpurun::report {

namespace {

constexpr size_t kMostCandidates = 64;  // parentheses of a name to try

// The position of the parenthesis that closes the one at `open`, quotes respected; npos if none.
size_t closing(std::string_view text, size_t open) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = open; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        quoted = false;
      }
    } else if (c == '"') {
      quoted = true;
    } else if (c == '(') {
      ++depth;
    } else if (c == ')' && --depth == 0) {
      return i;
    }
  }
  return std::string_view::npos;
}

struct GdbCall {
  std::string_view func;
  std::string_view place;  // " at x.c:12", " from /lib/y.so", or empty
};

// Splits "name (args) at place". Names may contain parentheses and blanks, as in "std::function<void
// ()>::operator()() const": the arguments are the group that is followed by a place or by the end.
std::optional<GdbCall> split_call(std::string_view text) {
  size_t tried = 0;
  for (size_t at = text.find(" ("); at != std::string_view::npos && tried < kMostCandidates;
       at = text.find(" (", at), ++tried) {
    ++at;
    const size_t end = closing(text, at);
    if (end == std::string_view::npos) {
      continue;
    }
    const std::string_view rest = text.substr(end + 1);
    if (rest.empty() || rest.starts_with(" at ") || rest.starts_with(" from ")) {
      return GdbCall{base::trim(text.substr(0, at)), rest};
    }
  }
  return std::nullopt;
}

void set_gdb_place(model::Frame& f, std::string_view place) {
  if (place.starts_with(" from ")) {
    f.module = base::sanitize(base::base_name(place.substr(6)));
  } else if (place.starts_with(" at ")) {
    place.remove_prefix(4);
    const size_t colon = place.rfind(':');
    const auto line =
        colon == std::string_view::npos ? std::nullopt : base::parse_int(place.substr(colon + 1));
    f.line = line && *line > 0 && *line < INT32_MAX ? static_cast<int>(*line) : 0;
    f.file = base::sanitize(f.line > 0 ? place.substr(0, colon) : place);
  }
}

std::optional<model::Frame> frame_line(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || !base::parse_int(line.substr(1, space - 1))) {
    return std::nullopt;
  }
  std::string_view text = base::trim(line.substr(space));
  model::Frame f;
  if (text.starts_with("<signal handler called>")) {
    f.kind = model::FrameKind::marker;
    f.func = "signal handler called";
    return f;
  }
  if (text.starts_with("0x")) {
    const size_t end = std::min(text.find(' '), text.size());
    f.pc = base::parse_hex(text.substr(2, end - 2)).value_or(0);
    text = base::trim(text.substr(end));
    if (text.starts_with("in ")) {
      text.remove_prefix(3);
    } else if (!text.starts_with('-')) {  // eu-stack: "0x7f name", perhaps " - file:line"
      const size_t dash = text.find(" - ");
      f.func = base::sanitize(base::trim(text.substr(0, dash)));
      f.func = f.func.empty() ? "??" : f.func;
      return f;
    }
  }
  const auto call = split_call(text);
  if (!call || call->func.empty()) {
    // pstack without arguments: "call_function /usr/src/ceval.c:4963"
    if (text.empty() || text.find('(') != std::string_view::npos) {
      return std::nullopt;
    }
    const size_t end = std::min(text.find(' '), text.size());
    f.func = base::sanitize(text.substr(0, end));
    set_gdb_place(f, end < text.size() ? fmt::format(" at {}", base::trim(text.substr(end))) : std::string());
    return f;
  }
  f.func = base::sanitize(call->func);
  set_gdb_place(f, call->place);
  return f;
}

std::optional<int64_t> number_after(std::string_view text, std::string_view word) {
  const size_t at = text.find(word);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  text.remove_prefix(at + word.size());
  size_t n = 0;
  while (n < text.size() && text[n] >= '0' && text[n] <= '9') {
    ++n;
  }
  return base::parse_int(text.substr(0, n));
}

// 'Thread 4 (Thread 0x7f (LWP 9824) "python"):', "Thread 1 (process 12):", "TID 9820:"
std::optional<model::ThreadStack> gdb_thread_header(std::string_view line) {
  const auto lwp = number_after(line, "(LWP ");
  const auto process = number_after(line, "(process ");
  const auto tid =
      lwp ? lwp : (process ? process : number_after(line, line.starts_with("TID ") ? "TID " : "Thread "));
  if (!tid || *tid > INT32_MAX) {
    return std::nullopt;
  }
  model::ThreadStack t;
  t.tid = static_cast<base::Tid>(*tid);
  const size_t open = line.find('"');
  const size_t close = line.rfind('"');
  if (open != std::string_view::npos && close > open) {
    t.comm = base::sanitize(line.substr(open + 1, close - open - 1));
  }
  return t;
}

// gdb breaks long lines by default; an indented line continues the frame before it.
std::vector<std::string> whole_lines(std::string_view text) {
  std::vector<std::string> out;
  for (std::string_view line : base::split(text, '\n')) {
    if (line.starts_with("    ") && !out.empty() && out.back().starts_with('#')) {
      out.back() += fmt::format(" {}", base::trim(line));
      out.emplace_back();  // preserves the numbers of later lines
      std::swap(out.back(), out[out.size() - 2]);
    } else {
      out.emplace_back(line.ends_with('\r') ? line.substr(0, line.size() - 1) : line);
    }
  }
  return out;
}

}  // namespace

base::Result<Imported> read_gdb_text(std::string_view text, const ImportHint& hint) {
  LineNotes notes;
  model::ProcessStacks process = imported_process(hint);
  size_t line_number = 0;
  for (const std::string& line : whole_lines(text)) {
    ++line_number;
    if (line.starts_with("Thread ") || line.starts_with("TID ")) {
      if (auto header = gdb_thread_header(line)) {
        process.threads.push_back(std::move(*header));
      } else {
        notes.add(line_number, "no thread id");
      }
    } else if (line.starts_with("PID ")) {
      process.pid = static_cast<base::Pid>(number_after(line, "PID ").value_or(0));
    } else if (line.starts_with('#')) {
      if (process.threads.empty()) {  // `bt` of one thread has no header
        process.threads.push_back({.tid = 1});
      }
      if (auto f = frame_line(line)) {
        process.threads.back().frames.push_back(std::move(*f));
      } else {
        notes.add(line_number, "not understood (truncated?)");
      }
    }
  }
  return only_process(std::move(process), notes.take());
}

}  // namespace xpurun::report
