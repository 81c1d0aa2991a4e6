// Folded stacks of flamegraph.pl, py-spy, perf and others.
#include "common/base/strings.h"
#include "report/import/line_notes.h"
#include "report/import/readers.h"

#include <algorithm>

namespace xpurun::report {

namespace {
constexpr size_t kMaxFrames = 4096;  // of one line
}

base::Result<Imported> read_folded(std::string_view text, const ImportHint& hint) {
  Imported out;
  LineNotes notes;
  model::ProcessStacks process = imported_process(hint);
  size_t line_number = 0;
  bool weighted = false;
  for (std::string_view line : base::split(text, '\n')) {
    ++line_number;
    line = base::trim(line);
    if (line.empty() || line.front() == '#') {
      continue;
    }
    const size_t space = line.rfind(' ');
    const auto count =
        space == std::string_view::npos ? std::nullopt : base::parse_int(line.substr(space + 1));
    if (!count || *count < 0) {
      notes.add(line_number, "no count at its end");
      continue;
    }
    weighted |= *count > 1;
    std::vector<std::string_view> words = base::split(line.substr(0, space), ';');
    if (words.size() > kMaxFrames) {
      notes.add(line_number, "more frames than are shown");
      words.resize(kMaxFrames);
    }
    model::ThreadStack t;
    t.tid = static_cast<base::Tid>(process.threads.size() + 1);
    t.main = true;  // the format does not distinguish threads
    for (std::string_view word : words) {
      if (!word.empty()) {
        t.frames.push_back(frame_from_label(base::sanitize(word)));
      }
    }
    std::reverse(t.frames.begin(), t.frames.end());
    process.threads.push_back(std::move(t));
  }
  out.notes = notes.take();
  if (process.threads.empty()) {
    return base::fail(out.notes.empty() ? "it holds no stacks" : out.notes.front());
  }
  if (weighted) {
    out.notes.emplace_back("its counts are not shown: widths are ranks or processes");
  }
  out.processes.push_back(std::move(process));
  return out;
}

}  // namespace xpurun::report
