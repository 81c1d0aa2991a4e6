#include "stackdump/resolve/thread_resolver.h"

#include "common/base/strings.h"
#include "stackdump/cpython/callee.h"

#include <fmt/format.h>

#include <algorithm>
#include <sys/stat.h>

namespace xpurun::stackdump {

namespace {

constexpr std::string_view kEval = "_PyEval_EvalFrameDefault";

model::Frame marker(std::string_view text) {
  model::Frame f;
  f.kind = model::FrameKind::marker;
  f.func = fmt::format("[{}]", text);
  return f;
}

// The source file as this process can open it: below the root (or the working) directory of a live process.
// Of a core file, only a file that has not changed since. Empty: none.
std::string source_path(const ModuleFiles& files, const std::string& file) {
  if (file.empty() || file[0] == '<') {
    return {};
  }
  if (files.pid != 0) {
    return fmt::format("/proc/{}/{}{}", files.pid, file[0] == '/' ? "root" : "cwd/", file);
  }
  const std::string path = files.sysroot + file;
  struct stat st {};
  if (files.core_ns == 0 || file[0] != '/' || ::stat(path.c_str(), &st) != 0 ||
      st.st_mtim.tv_sec * 1'000'000'000 + st.st_mtim.tv_nsec > files.core_ns) {
    return {};
  }
  return path;
}

}  // namespace

ThreadResolver::ThreadResolver(base::Pid pid, ModuleList& modules, SnapshotMemory& memory,
                               const PythonRuntime* runtime, const PySnapshot& python,
                               ResolveSettings settings)
    : pid_(pid), modules_(modules), runtime_(runtime), python_(python), settings_(std::move(settings)) {
  if (settings_.unwinder == UnwinderKind::libdw) {
    if (auto libdw = make_libdw_unwinder(modules, memory)) {
      unwinder_ = std::move(*libdw);
    } else {
      notes_.push_back("libdw not used: " + base::to_line(libdw.error()));
    }
  }
  if (unwinder_ == nullptr) {
    unwinder_ = std::make_unique<NativeUnwinder>(modules, memory);
  }
}

void ThreadResolver::add(const ThreadCopy& thread, std::optional<PyThread> python) {
  Pending p{.thread = &thread, .python = std::move(python)};
  if (thread.registers) {
    p.native = unwinder_->unwind(*thread.registers, thread.stack);
  } else {
    p.native.stopped = thread.no_registers;
  }
  pending_.push_back(std::move(p));
}

model::Frame ThreadResolver::native_frame(const NativeFrame& frame, const Names& names) const {
  model::Frame f;
  f.kind = model::FrameKind::native;
  f.pc = frame.pc;
  const auto it = names.find(frame.lookup_pc());
  if (it == names.end()) {
    return f;
  }
  const NamedAddress& n = it->second;
  f.func = n.func;
  f.full_func = n.full_func;
  if (n.module != nullptr) {
    f.module = base::sanitize(n.module->name);
    f.build_id = n.module->build_id;
    f.offset = frame.pc - n.module->bias;
    f.begin = n.begin;
    if (!n.named) {
      f.func = fmt::format("{}+{:#x}", f.module, f.offset);
    }
  }
  return f;
}

// Appends one stack frame, after the functions inlined into it.
void ThreadResolver::append_native(const NativeFrame& frame, bool eval, const Names& names,
                                   std::vector<model::Frame>& out) const {
  model::Frame f = native_frame(frame, names);
  f.eval = eval;
  const auto it = sources_.find(frame.lookup_pc());
  if (it != sources_.end()) {
    for (const SourcePlace& place : it->second) {
      if (place.function.empty()) {
        f.file = base::sanitize(place.file);
        f.line = place.line;
      } else if (!eval) {  // nothing may come between an evaluation and its Python frames
        model::Frame inlined = f;
        const std::string full = base::sanitize(demangle(place.function));
        inlined.func = shorten(full);
        inlined.full_func = inlined.func == full ? "" : full;
        inlined.file = base::sanitize(place.file);
        inlined.line = place.line;
        inlined.inlined = true;
        inlined.begin = 0;
        out.push_back(std::move(inlined));
      }
    }
  }
  out.push_back(std::move(f));
}

model::Frame ThreadResolver::python_frame(const RawFrame& frame) const {
  model::Frame f;
  f.kind = model::FrameKind::python;
  const auto it = python_.code.find(frame.code);
  if (it == python_.code.end() || runtime_ == nullptr) {
    f.func = '?';
    return f;
  }
  const CodeObject& code = it->second;
  const auto range = source_range(runtime_->offsets.lines, code.line_table, code.first_line,
                                  instruction_index(frame, code, runtime_->offsets));
  const auto call = python_.module_calls.find(frame.address);
  f.func = call != python_.module_calls.end() ? call->second : base::sanitize(code.name);
  f.file = base::sanitize(code.filename);
  f.line = range.line;
  f.column = range.column;
  f.end_line = range.end_line;
  f.end_column = range.end_column;
  if (const auto locals = python_.locals.find(frame.address); locals != python_.locals.end()) {
    f.locals = locals->second;
    for (model::Local& l : f.locals) {
      for (std::string* text : {&l.name, &l.value, &l.pyspy}) {
        *text = base::sanitize(*text);
      }
    }
  }
  return f;
}

std::vector<model::AsyncTask> ThreadResolver::tasks() const {
  std::vector<model::AsyncTask> out;
  for (const RawTask& raw : python_.tasks) {
    model::AsyncTask task{.id = raw.address,
                          .name = base::sanitize(raw.name),
                          .awaits = raw.awaits,
                          .object = base::sanitize(raw.object)};
    for (const RawFrame& frame : raw.frames) {
      task.frames.push_back(python_frame(frame));
      if (task.frames.size() == 1) {
        task.frames.back().callee = callee_of(task.frames.back());
      }
    }
    out.push_back(std::move(task));
  }
  return out;
}

model::ExceptionLink ThreadResolver::handled_exception(const HandledException& handled) const {
  model::ExceptionLink out{.type = base::sanitize(handled.type), .message = base::sanitize(handled.message)};
  for (const HandledException::Entry& entry : handled.traceback) {
    const auto code = python_.code.find(entry.frame.code);
    if (code == python_.code.end() || runtime_ == nullptr) {
      continue;
    }
    // tb_lasti counts bytes, line tables with columns count instructions.
    const auto line = [&] {
      return source_range(runtime_->offsets.lines, code->second.line_table, code->second.first_line,
                          entry.frame.instruction / 2)
          .line;
    };
    out.frames.push_back({.file = base::sanitize(code->second.filename),
                          .line = entry.line > 0 ? entry.line : line(),
                          .function = base::sanitize(code->second.name)});
  }
  return out;
}

model::GilState ThreadResolver::gil_state(const Pending& p, const Names& names) const {
  if (!p.python || runtime_ == nullptr) {
    return model::GilState::none;
  }
  if (p.python->holds_gil) {
    return model::GilState::holder;
  }
  const auto name_of = [&](size_t i) -> const NamedAddress* {
    const auto it = names.find(p.native.frames[i].lookup_pc());
    return it == names.end() ? nullptr : &it->second;
  };
  for (size_t i = 0; i < p.native.frames.size(); ++i) {
    const NamedAddress* n = name_of(i);
    if (n == nullptr) {
      continue;
    }
    if (n->named && n->func.starts_with("take_gil")) {
      return model::GilState::waiting;
    }
    if (n->named && n->func.starts_with("drop_gil")) {
      return model::GilState::dropping;
    }
    if (n->module == nullptr || n->module->path != runtime_->path) {
      continue;
    }
    // The innermost frame of the interpreter. take_gil and drop_gil may be inlined or stripped of their
    // names, but no other code in CPython waits on condition variables: its own locks are semaphores.
    // take_gil waits with a time limit, drop_gil without one.
    const NamedAddress* inner = i == 0 ? nullptr : name_of(i - 1);
    if (inner == nullptr) {
      return model::GilState::none;
    }
    const auto calls = [inner](std::string_view f) { return inner->func.find(f) != std::string::npos; };
    return calls("pthread_cond_timedwait") || calls("pthread_cond_clockwait") ? model::GilState::waiting
           : calls("pthread_cond_wait")                                       ? model::GilState::dropping
                                                                              : model::GilState::none;
  }
  return model::GilState::none;
}

// The collector runs without the GIL if a finalizer released the GIL, and always in free-threaded builds.
bool ThreadResolver::collects(const Pending& p, const Names& names) const {
  if (!p.python || !p.python->may_collect) {
    return p.python && p.python->collecting;
  }
  return std::any_of(p.native.frames.begin(), p.native.frames.end(), [&](const NativeFrame& frame) {
    const auto it = names.find(frame.lookup_pc());
    return it != names.end() && it->second.named && it->second.module != nullptr && runtime_ != nullptr &&
           it->second.module->path == runtime_->path &&
           (it->second.func.starts_with("gc_collect") || it->second.func.starts_with("collect.") ||
            it->second.func.starts_with("_PyGC_Collect") || it->second.func == "collect");
  });
}

// All but the frames.
model::ThreadStack ThreadResolver::facts_of(const Pending& p, const Names& names) const {
  const ThreadCopy& c = *p.thread;
  model::ThreadStack out;
  out.tid = c.tid;
  out.thread_id = p.python ? p.python->thread_id : (c.registers ? c.registers->fs_base : 0);
  out.comm = c.kernel.comm;
  out.state = c.kernel.state;
  out.main = c.tid == pid_;
  out.crashed = c.crashed;
  out.cpu_ms = c.kernel.cpu_ms;
  out.wchan = c.kernel.wchan;
  out.syscall = c.kernel.syscall;
  out.syscall_file = base::sanitize(c.kernel.syscall_file);
  out.target = base::sanitize(c.kernel.target);
  out.peers = c.kernel.peers;
  out.file_system = c.kernel.file_system;
  out.lock = c.kernel.lock;
  out.lock.path = base::sanitize(out.lock.path);
  out.gil = gil_state(p, names);
  out.gc = collects(p, names);
  if (p.python) {
    out.python_name = base::sanitize(p.python->name);
    if (p.python->interpreters != std::vector<int64_t>{0}) {
      out.interpreters = p.python->interpreters;
    }
    out.handling = handled_exception(p.python->handled);
    out.caught = handled_exception(p.python->caught);
  }
  if (c.cpp_exception) {
    out.cpp_exception = {.type = base::sanitize(c.cpp_exception->type),
                         .message = base::sanitize(c.cpp_exception->message)};
  }
  return out;
}

// What the innermost Python frame calls; empty if that is not known.
std::string ThreadResolver::callee_of(const model::Frame& f) const {
  // Since 3.11 an instruction without columns belongs to no expression.
  const bool known = f.column > 0 || runtime_ == nullptr || runtime_->offsets.minor < 11;
  return !known
             ? ""
             : base::sanitize(callee_at(
                   source_path(modules_.files(), f.file),
                   {.line = f.line, .end_line = f.end_line, .column = f.column, .end_column = f.end_column}));
}

model::ThreadStack ThreadResolver::resolve_one(const Pending& p, const Names& names) const {
  model::ThreadStack out = facts_of(p, names);
  for (const std::string& function : p.thread->kernel_stack) {
    model::Frame f;
    f.kind = model::FrameKind::kernel;
    f.func = base::sanitize(function);
    out.frames.push_back(std::move(f));
  }
  std::vector<bool> is_eval;
  for (const NativeFrame& frame : p.native.frames) {
    const auto it = names.find(frame.lookup_pc());
    is_eval.push_back(it != names.end() && it->second.named && it->second.func.starts_with(kEval));
  }
  static const std::vector<FrameGroup> kNoGroups;
  const auto& groups = !p.python ? kNoGroups : p.python->groups;
  bool innermost = true;  // among the Python frames
  for (const MergedItem& item : interleave(p.native, groups, is_eval)) {
    switch (item.kind) {
      case MergedItem::Kind::native:
        append_native(p.native.frames[item.native], item.eval, names, out.frames);
        break;
      case MergedItem::Kind::python: {
        const auto code = python_.code.find(groups[item.group].frames[item.frame].code);
        const bool last = item.frame + 1 == groups[item.group].frames.size();
        if (code != python_.code.end() && is_ours(code->second)) {
          if (last && !out.frames.empty() && out.frames.back().kind == model::FrameKind::python) {
            out.frames.back().entry = true;
          }
          break;
        }
        model::Frame f = python_frame(groups[item.group].frames[item.frame]);
        f.entry = last;
        if (std::exchange(innermost, false)) {
          f.callee = callee_of(f);
        }
        out.frames.push_back(std::move(f));
        break;
      }
      case MergedItem::Kind::marker:
        out.frames.push_back(marker(item.marker));
        break;
    }
  }
  if (p.python && !p.python->cut.empty()) {
    out.frames.push_back(marker("Python frames end here: " + p.python->cut));
  }
  return out;
}

std::vector<model::ThreadStack> ThreadResolver::resolve() {
  std::vector<Addr> addresses;
  for (const Pending& p : pending_) {
    for (const NativeFrame& f : p.native.frames) {
      addresses.push_back(f.lookup_pc());
    }
  }
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  SymbolCache cache(settings_.cache_directory);
  const Names names = name_addresses(addresses, modules_, cache);
  if (settings_.line_budget_ns > 0) {
    auto sources = look_up_sources(addresses, modules_, cache, settings_.line_budget_ns);
    sources_ = std::move(sources.places);
    if (!sources.note.empty()) {
      notes_.push_back(std::move(sources.note));
    }
  }
  for (const auto& [address, name] : names) {
    if (name.module != nullptr) {
      module_paths_[base::sanitize(name.module->name)] = base::sanitize(name.module->path);
    }
  }
  std::vector<model::ThreadStack> out;
  for (const Pending& p : pending_) {
    out.push_back(resolve_one(p, names));
  }
  std::sort(out.begin(), out.end(), [](const model::ThreadStack& a, const model::ThreadStack& b) {
    return a.main != b.main ? a.main : a.tid < b.tid;
  });
  return out;
}

}  // namespace xpurun::stackdump
