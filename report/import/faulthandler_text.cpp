// Python's faulthandler: dump_traceback(), -X faulthandler, a fatal error of the interpreter.
#include "common/base/strings.h"
#include "report/import/line_notes.h"
#include "report/import/readers.h"

#include <optional>

namespace xpurun::report {

namespace {

constexpr std::string_view kCurrentThread = "Current thread ";
constexpr std::string_view kOtherThread = "Thread ";
constexpr std::string_view kOrder = " (most recent call first):";

// 'Current thread 0x00007f4a (most recent call first):', 'Thread 0x00007f4a [loader] (most recent call
// first):'
std::optional<model::ThreadStack> faulthandler_thread(std::string_view line) {
  const bool current = line.starts_with(kCurrentThread);
  if (!current && !line.starts_with(kOtherThread)) {
    return std::nullopt;
  }
  line.remove_prefix(current ? kCurrentThread.size() : kOtherThread.size());
  const size_t order = line.find(kOrder);
  if (order == std::string_view::npos || !line.starts_with("0x")) {
    return std::nullopt;
  }
  line = line.substr(2, order - 2);
  const size_t name = line.find(" [");
  const auto id = base::parse_hex(line.substr(0, name));
  if (!id) {
    return std::nullopt;
  }
  model::ThreadStack out;
  out.thread_id = *id;
  out.gil = current ? model::GilState::holder : model::GilState::none;
  if (name != std::string_view::npos && line.ends_with(']')) {
    out.python_name = base::sanitize(line.substr(name + 2, line.size() - name - 3));
  }
  return out;
}

// '  File "train.py", line 10 in step'
std::optional<model::Frame> faulthandler_frame(std::string_view line) {
  constexpr std::string_view kFile = "File \"";
  constexpr std::string_view kLine = "\", line ";
  constexpr std::string_view kIn = " in ";
  line = base::trim(line);
  const size_t number = line.rfind(kLine);
  if (!line.starts_with(kFile) || number == std::string_view::npos || number < kFile.size()) {
    return std::nullopt;
  }
  const std::string_view rest = line.substr(number + kLine.size());
  const size_t in = rest.find(kIn);
  if (in == std::string_view::npos) {
    return std::nullopt;
  }
  return model::Frame{.kind = model::FrameKind::python,
                      .func = base::sanitize(rest.substr(in + kIn.size())),
                      .file = base::sanitize(line.substr(kFile.size(), number - kFile.size())),
                      .line = static_cast<int>(base::parse_int(rest.substr(0, in)).value_or(0))};
}

}  // namespace

base::Result<Imported> read_faulthandler_text(std::string_view text, const ImportHint& hint) {
  model::ProcessStacks process = imported_process(hint);
  LineNotes notes;
  size_t number = 0;
  for (const std::string_view line : base::split(text, '\n')) {
    ++number;
    if (auto thread = faulthandler_thread(line)) {
      process.threads.push_back(std::move(*thread));
    } else if (auto frame = faulthandler_frame(line); frame && !process.threads.empty()) {
      process.threads.back().frames.push_back(std::move(*frame));
    } else if (base::trim(line) == "...") {
      notes.add(number, "the outer frames are not in the file");
    }
  }
  // The ids are no numbers of the kernel. The main thread comes last, and has the lowest number.
  for (size_t i = 0; i < process.threads.size(); ++i) {
    process.threads[i].tid = static_cast<base::Tid>(process.threads.size() - i);
  }
  return only_process(std::move(process), notes.take());
}

}  // namespace xpurun::report
