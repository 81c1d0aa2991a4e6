// py-spy's JSON, field by field as py-spy 0.4 prints it.
#include "common/base/strings.h"
#include "common/model/json/json_text.h"
#include "report/formats/formats.h"
#include "report/tree/roles.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>

namespace xpurun::report {

namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

// A file's path below its outermost package directory: "torch/nn/modules/linear.py". If the file exists on
// this host, a package is a directory with an __init__.py, as in py-spy; otherwise the path decides.
class ShortNames {
 public:
  const std::string& of(const std::string& file) {
    auto [it, is_new] = known_.try_emplace(file);
    if (is_new) {
      it->second = shorten(file);
    }
    return it->second;
  }

 private:
  static std::string shorten(const std::string& file) {
    std::error_code ec;
    const fs::path path(file);
    if (path.is_absolute() && !fs::exists(path.parent_path(), ec)) {
      return path_below_packages(file);
    }
    fs::path root = path.parent_path();
    while (!root.empty() && fs::exists(root / "__init__.py", ec) && root != root.parent_path()) {
      root = root.parent_path();
    }
    const std::string prefix = root.string();
    const bool below = !prefix.empty() && file.size() > prefix.size() + 1 && file.starts_with(prefix);
    return below ? file.substr(prefix.size() + (prefix.back() == '/' ? 0 : 1)) : file;
  }

  std::map<std::string, std::string> known_;
};

// How CPython marks calls of the evaluation function, by version: up to 3.10 every frame is one; 3.11 has a
// flag in the frame; later versions have a separate frame below each group.
enum class EntryStyle { every_frame, flag, shim };

EntryStyle entry_style(const std::string& version) {
  int minor = 0;
  if (version.starts_with("3.")) {
    for (size_t i = 2; i < version.size() && version[i] >= '0' && version[i] <= '9' && minor < 1000; ++i) {
      minor = minor * 10 + (version[i] - '0');
    }
  }
  return minor >= 12 || minor == 0 ? EntryStyle::shim
                                   : (minor == 11 ? EntryStyle::flag : EntryStyle::every_frame);
}

// Which native frames py-spy shows. Of the interpreter's own, these are the functions of some modules and of
// locks; all others only run the Python frames beside them.
class NativeFrames {
 public:
  explicit NativeFrames(const model::ProcessStacks& p) : paths_(p.module_paths) {
    for (const model::ThreadStack& t : p.threads) {
      for (const model::Frame& f : t.frames) {
        if (f.eval) {
          interpreters_.insert(f.module);
        }
      }
    }
  }

  bool shows(const model::Frame& f) const {
    if (f.kind != model::FrameKind::native || f.eval) {
      return false;
    }
    if (is_interpreter(f.module)) {
      return !f.inlined && is_builtin(f.func);
    }
    const bool is_libc = f.module.starts_with("libc.") || f.module.starts_with("libc-");
    return !(is_libc && (f.func == "__libc_start_main" || f.func == "__clone")) &&
           !(f.module.starts_with("libpthread") && f.func == "start_thread");
  }

  std::string path_of(const std::string& module) const {
    const auto it = paths_.find(module);
    return it == paths_.end() ? module : it->second;
  }

 private:
  bool is_interpreter(const std::string& module) const {
    return interpreters_.contains(module) || module.starts_with("libpython") || module == "python" ||
           module.starts_with("python3");
  }

  // By the first part of the name: time_sleep, os_read, lock_PyThread_acquire_lock.
  static bool is_builtin(std::string_view function) {
    constexpr std::array<std::string_view, 11> kShown = {
        "time", "sys", "gc", "os", "unicode", "thread", "stringio", "sre", "PyGilState", "PyThread", "lock"};
    const size_t begin = std::min(function.find_first_not_of("_."), function.size());
    const std::string_view part = function.substr(begin, function.find_first_of("_.", begin) - begin);
    return std::find(kShown.begin(), kShown.end(), part) != kShown.end();
  }

  const std::map<std::string, std::string>& paths_;
  std::set<std::string> interpreters_;
};

Json native_frame(const model::Frame& f, const NativeFrames& all) {
  const std::string path = all.path_of(f.module);
  const std::string file = f.line > 0 && !f.file.empty() ? f.file : path.empty() ? "?" : path;
  const bool is_unnamed = f.func.empty() || f.func == fmt::format("{}+{:#x}", f.module, f.offset) ||
                          (f.module.empty() && f.func == "[unknown code]");
  Json j;
  j["name"] = is_unnamed ? fmt::format("{:#x}", f.pc) : f.func;
  j["filename"] = file;
  j["module"] = path.empty() ? Json() : Json(path);
  j["short_filename"] = base::base_name(file);
  j["line"] = f.line;
  j["locals"] = nullptr;
  j["is_entry"] = true;
  j["is_shim_entry"] = true;
  return j;
}

// Null if local variables were not requested.
Json locals_of(const model::Frame& f, bool requested) {
  if (f.locals.empty() && !requested) {
    return nullptr;
  }
  Json out = Json::array();
  for (const model::Local& local : f.locals) {
    Json j;
    j["name"] = local.name;
    j["addr"] = local.address;
    j["arg"] = local.argument;
    j["repr"] = local.pyspy.empty() ? local.value : local.pyspy;
    out.push_back(std::move(j));
  }
  return out;
}

struct PythonFrames {
  EntryStyle style;
  bool with_locals;
};

Json python_frame(const model::Frame& f, PythonFrames process, bool outermost, ShortNames& names) {
  const EntryStyle style = process.style;
  Json j;
  j["name"] = f.func;
  j["filename"] = f.file;
  j["module"] = nullptr;
  j["short_filename"] = names.of(f.file);
  j["line"] = f.line;
  j["locals"] = locals_of(f, process.with_locals);
  j["is_entry"] = style == EntryStyle::every_frame || (style == EntryStyle::flag && f.entry);
  j["is_shim_entry"] = outermost || (style == EntryStyle::shim && f.entry);
  return j;
}

Json thread_json(const model::ProcessStacks& p, const model::ThreadStack& t, View view,
                 const NativeFrames& native, ShortNames& names) {
  const PythonFrames process{.style = entry_style(p.python_version), .with_locals = p.with_locals};
  const bool with_native = view != View::python;
  const model::Frame* outermost = nullptr;
  for (const model::Frame& f : t.frames) {
    outermost = f.kind == model::FrameKind::python ? &f : outermost;
  }
  Json j;
  j["pid"] = p.pid;
  j["thread_id"] = t.thread_id;
  const std::string name = !t.python_name.empty() ? t.python_name : (t.main ? "MainThread" : "");
  j["thread_name"] = name.empty() ? Json() : Json(name);
  j["os_thread_id"] = t.tid == 0 ? Json() : Json(t.tid);
  j["active"] = t.state == 'R';
  j["owns_gil"] = t.gil == model::GilState::holder;
  Json& frames = j["frames"] = Json::array();
  for (const model::Frame& f : t.frames) {
    if (f.kind == model::FrameKind::python) {
      frames.push_back(python_frame(f, process, &f == outermost, names));
    } else if (with_native && native.shows(f)) {
      frames.push_back(native_frame(f, native));
    }
  }
  j["process_info"] = nullptr;
  return j;
}

bool runs_python(const model::ThreadStack& t) {
  return std::any_of(t.frames.begin(), t.frames.end(),
                     [](const model::Frame& f) { return f.kind == model::FrameKind::python; });
}

}  // namespace

std::string pyspy_json(const StackSet& set, View view) {
  ShortNames names;
  Json out = Json::array();
  for (const model::ProcessStacks& p : set.processes()) {
    // CPython's list of threads starts with the newest.
    std::vector<const model::ThreadStack*> threads;
    for (const model::ThreadStack& t : p.threads) {
      if (runs_python(t)) {
        threads.push_back(&t);
      }
    }
    std::stable_sort(threads.begin(), threads.end(), [](const auto* a, const auto* b) {
      return a->main != b->main ? b->main : a->tid > b->tid;
    });
    const NativeFrames native(p);
    for (const model::ThreadStack* t : threads) {
      out.push_back(thread_json(p, *t, view, native, names));
    }
  }
  return model::json_text(out, 2) + '\n';
}

}  // namespace xpurun::report
