#include "report/import/import.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "report/import/readers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

namespace xpurun::report {

namespace fs = std::filesystem;

namespace {

constexpr size_t kLargestFile = size_t{256} << 20;
constexpr size_t kMostFiles = 100'000;
constexpr size_t kSniffed = 8192;

// By ForeignFormat.
struct Reader {
  std::string_view name;
  base::Result<Imported> (*read)(std::string_view content, const ImportHint& hint);
};
constexpr std::array<Reader, 11> kReaders{{{"unknown", nullptr},
                                           {"folded stacks", read_folded},
                                           {"py-spy JSON", read_pyspy_json},
                                           {"py-spy text", read_pyspy_text},
                                           {"pystack text", read_pystack_text},
                                           {"gdb or pstack text", read_gdb_text},
                                           {"xpu_timer stack", read_xpu_timer},
                                           {"launches of xpu_timer", read_xpu_timer_launches},
                                           {"faulthandler text", read_faulthandler_text},
                                           {"speedscope profile", read_speedscope},
                                           {"trace events", read_chrome_stacks}}};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

base::Rank leading_number(std::string_view text) {
  size_t n = 0;
  while (n < text.size() && is_digit(text[n])) {
    ++n;
  }
  const auto value = base::parse_int(text.substr(0, n));
  return value && *value < base::kHighestRank ? static_cast<base::Rank>(*value) : base::kNoRank;
}

bool is_xpu_timer_name(std::string_view name) {
  return name.ends_with(".stacktrace");
}

// xpurun's own files, pictures, packed files: not imported, and no reason for a note.
bool is_no_candidate(std::string_view name) {
  constexpr std::array<std::string_view, 4> kOurs = {"merged.folded", "python.folded", "native.folded",
                                                     "stacks.txt"};
  constexpr std::array<std::string_view, 14> kEndings = {".svg", ".html", ".htm",  ".png", ".gz",
                                                         ".zst", ".tar",  ".zip",  ".pyc", ".so",
                                                         ".py",  ".xev",  ".snap", ".log"};
  if (name.starts_with('.') || std::find(kOurs.begin(), kOurs.end(), name) != kOurs.end()) {
    return true;
  }
  return std::any_of(kEndings.begin(), kEndings.end(), [&](auto end) { return name.ends_with(end); });
}

bool looks_folded(std::string_view content) {
  size_t good = 0;
  for (std::string_view line : base::split(content, '\n')) {
    if (line.empty() || line.front() == '#') {
      continue;
    }
    const size_t space = line.rfind(' ');
    const bool number =
        space != std::string_view::npos && base::parse_int(line.substr(space + 1)).has_value();
    if (!number || line.substr(0, space).find(';') == std::string_view::npos) {
      // The last line read may be truncated.
      return good > 0 && line.data() + line.size() == content.data() + content.size();
    }
    ++good;
  }
  return good > 0;
}

// 'Thread 9822 (idle): "MainThread"': of a file without py-spy's first lines.
bool has_pyspy_thread(std::string_view head) {
  for (std::string_view line : base::split(head, '\n')) {
    const size_t open = line.find(" (");
    if (!line.starts_with("Thread ") || open == std::string_view::npos) {
      continue;
    }
    const std::string_view id = line.substr(7, open - 7);
    const std::string_view state = line.substr(open + 2);
    const bool number = base::parse_int(id).has_value() || id.starts_with("0x");
    const size_t close = std::min(state.find(')'), state.size());
    const std::string_view rest = state.substr(std::min(close + 1, state.size()));
    if (number && (state.starts_with("idle") || state.starts_with("active")) &&
        (rest.empty() || rest.starts_with(':'))) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string_view name_of(ForeignFormat format) {
  return kReaders[static_cast<size_t>(format)].name;
}

ImportHint hint_of(const std::string& path) {
  ImportHint hint;
  std::error_code ec;
  const fs::path absolute = fs::absolute(path, ec);
  hint.host = base::sanitize(absolute.parent_path().filename().string());
  const std::string_view name = base::base_name(path);
  if (is_xpu_timer_name(name) && name.size() > 6 && is_digit(name[0])) {
    hint.rank = leading_number(name);
    return hint;
  }
  size_t at = name.find("rank");
  if (at != std::string_view::npos) {
    at += 4;
    if (at < name.size() && (name[at] == '-' || name[at] == '_' || name[at] == '.')) {
      ++at;
    }
    if (at < name.size() && is_digit(name[at])) {
      hint.rank = leading_number(name.substr(at));
    }
  }
  return hint;
}

ForeignFormat sniff(std::string_view file_name, std::string_view content) {
  if (is_xpu_timer_name(file_name)) {
    return ForeignFormat::xpu_timer;
  }
  if (file_name.ends_with(".tracing_kernel_callstack")) {
    return ForeignFormat::xpu_timer_launches;
  }
  const std::string_view head = content.substr(0, kSniffed);
  if (head.find("Traceback for thread ") != std::string_view::npos) {
    return ForeignFormat::pystack_text;
  }
  if (head.find(" (most recent call first):") != std::string_view::npos) {
    return ForeignFormat::faulthandler_text;
  }
  if (head.find("\nPython v") != std::string_view::npos || head.starts_with("Python v") ||
      has_pyspy_thread(head)) {
    return ForeignFormat::pyspy_text;
  }
  if (head.find("(LWP ") != std::string_view::npos || head.starts_with("#0 ") ||
      head.find("\n#0 ") != std::string_view::npos || head.find("\nTID ") != std::string_view::npos) {
    return ForeignFormat::gdb_text;
  }
  if (const std::string_view text = base::trim(head); text.starts_with('[') || text.starts_with('{')) {
    if (content.find("\"shared\"") != std::string_view::npos &&
        content.find("\"profiles\"") != std::string_view::npos) {
      return ForeignFormat::speedscope;
    }
    // Complete events have no begin and no end of their own: they are traces and no stacks.
    const bool begins = content.find("\"ph\":\"B\"") != std::string_view::npos ||
                        content.find("\"ph\": \"B\"") != std::string_view::npos;
    if (begins && content.find("\"name\"") != std::string_view::npos) {
      return ForeignFormat::chrome_trace;
    }
    const bool threads = text.find("\"frames\"") != std::string_view::npos ||
                         text.find("\"os_thread_id\"") != std::string_view::npos ||
                         base::trim(content) == "[]";
    return threads ? ForeignFormat::pyspy_json : ForeignFormat::unknown;
  }
  return looks_folded(head) ? ForeignFormat::folded : ForeignFormat::unknown;
}

base::Result<Imported> import_content(ForeignFormat format, std::string_view content,
                                      const ImportHint& hint) {
  if (const auto read = kReaders[static_cast<size_t>(format)].read; read != nullptr) {
    return read(content, hint);
  }
  return base::fail("no stacks in a format that can be read");
}

base::Result<Imported> import_file(const std::string& path) {
  XPURUN_TRY_ASSIGN(const std::string content, base::read_file(path, kLargestFile));
  if (content.empty()) {
    return base::fail(fmt::format("{}: the file is empty", path));
  }
  const ForeignFormat format = sniff(base::base_name(path), content);
  auto imported = import_content(format, content, hint_of(path));
  if (!imported) {
    const std::string doing =
        format == ForeignFormat::unknown ? path : fmt::format("{} ({})", path, name_of(format));
    return base::fail(std::move(imported.error()).context(doing));
  }
  return imported;
}

ForeignFiles find_foreign_files(const std::string& dir) {
  ForeignFiles out;
  std::error_code ec;
  std::string own_dir;  // the latest directory found to hold xpurun's own stacks
  std::string looked_at;
  const auto is_ours = [&](const fs::path& parent) {
    if (parent.string() != looked_at) {
      looked_at = parent.string();
      std::error_code inner;
      own_dir.clear();
      for (const auto& entry : fs::directory_iterator(parent, inner)) {
        const std::string name = entry.path().filename();
        if (name.ends_with(model::kStacksSuffix) || name == "run.json" || name == "dump.json") {
          own_dir = looked_at;
          break;
        }
      }
    }
    return own_dir == looked_at;
  };
  for (auto it = fs::recursive_directory_iterator(dir, fs::directory_options::skip_permission_denied, ec);
       !ec && it != fs::recursive_directory_iterator(); it.increment(ec)) {
    std::error_code ignored;
    if (!it->is_regular_file(ignored) || it->is_symlink(ignored) ||
        is_no_candidate(it->path().filename().string()) || is_ours(it->path().parent_path())) {
      continue;
    }
    if (out.files.size() == kMostFiles) {
      out.notes.push_back(fmt::format("{}: only the first {} files were looked at", dir, kMostFiles));
      break;
    }
    out.files.push_back(it->path());
  }
  std::sort(out.files.begin(), out.files.end());
  return out;
}

}  // namespace xpurun::report
