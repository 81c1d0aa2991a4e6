#include "report/run/source_text.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/model/secrets/redact.h"
#include "report/tree/roles.h"

#include <algorithm>
#include <filesystem>
#include <sys/stat.h>

namespace xpurun::report {

namespace {

constexpr std::uintmax_t kLargestFile = 4 << 20;
constexpr size_t kLongestLine = 160;
constexpr size_t kMostFiles = 200;
constexpr size_t kMostPlaces = 3;
constexpr int kAround = 4;         // of the culprit's own line
constexpr int kAroundCallers = 1;  // of the lines that led there

std::string shown(std::string_view line) {
  std::string spaced;
  for (const char c : line) {
    spaced += c == '\t' ? std::string("    ") : std::string(1, c);
  }
  const size_t end = spaced.find_last_not_of(" \r");
  spaced.resize(end == std::string::npos ? 0 : end + 1);
  return base::elide_middle(model::redact_source(base::sanitize(spaced)), kLongestLine);
}

std::string trimmed(const std::string& text) {
  return std::string(base::trim(text));
}

bool has(const std::vector<CulpritPlace>& places, const std::string& file, int line) {
  return std::any_of(places.begin(), places.end(),
                     [&](const CulpritPlace& p) { return p.file == file && p.line == line; });
}

}  // namespace

void SourceText::add(const model::SourceRecord& record) {
  for (const model::SourceFile& from : record.files) {
    if (files_.size() >= kMostFiles) {
      return;
    }
    File& to = files_[from.file];
    to.changed = to.changed || from.changed;
    for (const model::SourceLine& line : from.lines) {
      // The file may come from anywhere.
      to.lines.emplace(line.number, shown(line.text));
    }
  }
}

const SourceText::Loaded& SourceText::load(const std::string& file, const model::RunManifest& run) {
  static const Loaded kNothing;
  if (const auto it = loaded_.find(file); it != loaded_.end()) {
    return it->second;
  }
  if (file.empty() || loaded_.size() >= kMostFiles || (file[0] != '/' && run.cwd.empty())) {
    return kNothing;
  }
  const std::string path = file[0] == '/' ? file : run.cwd + "/" + file;
  Loaded out;
  // A name in a stack may be anything, a device or a pipe included.
  struct stat st {};
  if (::stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode) &&
      static_cast<std::uintmax_t>(st.st_size) <= kLargestFile) {
    out.changed = run.started_wall_ns > 0 && st.st_mtim.tv_sec > run.started_wall_ns / 1'000'000'000;
    const std::string text = base::read_regular_file(path, kLargestFile).value_or(std::string());
    for (const auto line : base::split(text, '\n')) {
      out.lines.emplace_back(line);
    }
    if (!out.lines.empty() && out.lines.back().empty()) {
      out.lines.pop_back();  // behind the last line break
    }
  }
  return loaded_[file] = std::move(out);
}

void SourceText::read(const std::string& file, int line, int around, const model::RunManifest& run) {
  const Loaded& from = load(file, run);
  if (line <= 0 || static_cast<size_t>(line) > from.lines.size()) {
    return;
  }
  File& to = files_[file];
  to.changed = to.changed || from.changed;
  const int last = static_cast<int>(std::min<size_t>(from.lines.size(), static_cast<size_t>(line + around)));
  for (int n = std::max(1, line - around); n <= last; ++n) {
    if (to.lines.find(n) == to.lines.end()) {
      to.lines.emplace(n, shown(from.lines[static_cast<size_t>(n - 1)]));
    }
  }
}

const std::string* SourceText::find(const std::string& file, int line) const {
  const auto f = files_.find(file);
  if (f == files_.end()) {
    return nullptr;
  }
  const auto l = f->second.lines.find(line);
  return l == f->second.lines.end() ? nullptr : &l->second;
}

SourceExcerpt SourceText::excerpt(const std::string& file, int line, int around) const {
  SourceExcerpt out{.function = {}, .file = file, .line = line, .changed = false, .lines = {}};
  if (find(file, line) == nullptr) {
    return out;
  }
  out.changed = files_.at(file).changed;
  int first = line;
  while (first > line - around && find(file, first - 1) != nullptr) {
    --first;
  }
  for (int n = first; n <= line + around; ++n) {
    const std::string* text = find(file, n);
    if (text == nullptr) {
      break;
    }
    out.lines.push_back({.number = n, .text = *text});
  }
  // The common indentation of all lines is dropped.
  size_t common = std::string::npos;
  for (const model::SourceLine& l : out.lines) {
    if (const size_t indent = l.text.find_first_not_of(' '); indent != std::string::npos) {
      common = std::min(common, indent);
    }
  }
  for (model::SourceLine& l : out.lines) {
    l.text.erase(0, std::min(common == std::string::npos ? 0 : common, l.text.size()));
  }
  return out;
}

model::SourceRecord SourceText::record() const {
  model::SourceRecord out;
  for (const auto& [name, file] : files_) {
    model::SourceFile f{.file = name, .changed = file.changed, .lines = {}};
    for (const auto& [number, text] : file.lines) {
      f.lines.push_back({.number = number, .text = text});
    }
    out.files.push_back(std::move(f));
  }
  return out;
}

std::vector<CulpritPlace> culprit_places(const model::Verdict& verdict, const model::RunManifest& run,
                                         const std::vector<StackClass>& classes) {
  std::vector<CulpritPlace> out;
  const auto put = [&out](const std::string& function, const std::string& file, int line) {
    if (!file.empty() && line > 0 && out.size() < kMostPlaces && !has(out, file, line)) {
      out.push_back({.function = function,
                     .file = file,
                     .line = line,
                     .around = out.empty() ? kAround : kAroundCallers});
    }
  };
  put(verdict.where.native, verdict.where.native_file, verdict.where.native_line);
  put(verdict.where.function, verdict.where.file, verdict.where.line);
  if (verdict.kind == model::VerdictKind::exception) {
    for (const model::PythonException& x : run.exceptions) {
      if (x.pid != verdict.pid || x.chain.empty()) {
        continue;
      }
      const auto& frames = x.chain.front().frames;
      for (auto f = frames.rbegin(); f != frames.rend(); ++f) {
        model::Frame frame;
        frame.kind = model::FrameKind::python;
        frame.file = f->file;
        if (is_user_code(frame)) {
          put(f->function, f->file, f->line);
        }
      }
    }
  }
  for (const StackClass& c : classes) {
    if (verdict.ranks.empty() || !verdict.ranks.contains(c.ranks) ||
        verdict.kind == model::VerdictKind::exception) {
      continue;
    }
    for (const model::Frame& f : c.frames) {
      if (f.kind == model::FrameKind::python && is_user_code(f)) {
        put(f.func, f.file, f.line);
      }
    }
  }
  return out;
}

void read_source(SourceText& text, const std::vector<CulpritPlace>& places,
                 const std::vector<StackClass>& classes, const model::RunManifest& run) {
  for (const CulpritPlace& p : places) {
    text.read(p.file, p.line, p.around, run);
  }
  for (const StackClass& c : classes) {
    for (const model::Frame& f : c.frames) {
      if (f.kind == model::FrameKind::python) {
        text.read(f.file, f.line, 0, run);
      }
    }
  }
}

void add_source_lines(const SourceText& text, std::vector<StackClass>& classes) {
  for (StackClass& c : classes) {
    for (size_t i = 0; i < c.frames.size(); ++i) {
      const model::Frame& f = c.frames[i];
      const std::string* line = f.kind == model::FrameKind::python ? text.find(f.file, f.line) : nullptr;
      if (line != nullptr && !trimmed(*line).empty()) {
        c.source[static_cast<std::ptrdiff_t>(i)] = trimmed(*line);
      }
    }
  }
}

std::vector<SourceExcerpt> excerpts(const SourceText& text, const std::vector<CulpritPlace>& places) {
  std::vector<SourceExcerpt> out;
  for (const CulpritPlace& p : places) {
    SourceExcerpt e = text.excerpt(p.file, p.line, p.around);
    if (!e.lines.empty()) {
      e.function = p.function;
      out.push_back(std::move(e));
    }
  }
  return out;
}

}  // namespace xpurun::report
