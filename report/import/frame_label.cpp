// Parses frames from the one-line form of people and folded files.
#include "common/base/strings.h"
#include "report/import/readers.h"

#include <algorithm>

namespace xpurun::report {

namespace {

bool is_python_file(std::string_view file) {
  return file.ends_with(".py") || file.ends_with(".pyx") || file.starts_with('<');
}

// Splits "train.py:31" into file and line; a name without a number leaves line 0.
void set_place(model::Frame& f, std::string_view place) {
  const size_t colon = place.rfind(':');
  const auto line = colon == std::string_view::npos ? std::nullopt : base::parse_int(place.substr(colon + 1));
  const bool numbered = line && *line > 0 && *line < INT32_MAX;
  const std::string_view file = numbered ? place.substr(0, colon) : place;
  if (numbered) {
    f.line = static_cast<int>(*line);
  }
  if (is_python_file(file) && (numbered || !file.starts_with('<'))) {
    f.kind = model::FrameKind::python;
    f.file = file;
  } else if (numbered) {
    f.file = file;
  } else {
    f.module = base::base_name(file);
  }
}

}  // namespace

model::Frame frame_from_label(std::string_view label) {
  label = base::trim(label);
  model::Frame f;
  if (label.size() > 2 && label.front() == '[' && label.back() == ']') {
    f.kind = model::FrameKind::marker;
    f.func = label.substr(1, label.size() - 2);
    return f;
  }
  for (const auto& [suffix, kind] : {std::pair{std::string_view(" [kernel]"), model::FrameKind::kernel},
                                     std::pair{std::string_view("_[k]"), model::FrameKind::kernel},
                                     std::pair{std::string_view(" [gpu]"), model::FrameKind::gpu}}) {
    if (label.size() > suffix.size() && label.ends_with(suffix)) {
      f.kind = kind;
      f.func = label.substr(0, label.size() - suffix.size());
      return f;
    }
  }
  const size_t open = label.rfind(" (");
  if (open != std::string_view::npos && open > 0 && label.ends_with(')')) {
    set_place(f, label.substr(open + 2, label.size() - open - 3));
    label = label.substr(0, open);
  }
  f.func = label;
  return f;
}

model::ProcessStacks imported_process(const ImportHint& hint) {
  model::ProcessStacks p;
  p.host = hint.host;
  p.rank = hint.rank;
  p.role = hint.rank == base::kNoRank ? model::ProcessRole::other : model::ProcessRole::rank;
  p.method = "imported";
  return p;
}

void choose_main_thread(model::ProcessStacks& p) {
  if (p.threads.empty()) {
    return;
  }
  const auto lowest = std::min_element(
      p.threads.begin(), p.threads.end(),
      [](const model::ThreadStack& a, const model::ThreadStack& b) { return a.tid < b.tid; });
  const auto own = std::find_if(p.threads.begin(), p.threads.end(),
                                [&](const model::ThreadStack& t) { return p.pid != 0 && t.tid == p.pid; });
  const auto named = std::find_if(p.threads.begin(), p.threads.end(),
                                  [](const model::ThreadStack& t) { return t.python_name == "MainThread"; });
  const auto main = own != p.threads.end() ? own : (named != p.threads.end() ? named : lowest);
  main->main = true;
  if (p.pid == 0) {
    p.pid = main->tid;
  }
  std::rotate(p.threads.begin(), main, main + 1);
}

base::Result<Imported> only_process(model::ProcessStacks process, std::vector<std::string> notes) {
  if (process.threads.empty()) {
    return base::fail(notes.empty() ? "it holds no threads" : notes.front());
  }
  choose_main_thread(process);
  Imported out;
  out.notes = std::move(notes);
  out.processes.push_back(std::move(process));
  return out;
}

}  // namespace xpurun::report
