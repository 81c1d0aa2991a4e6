// ThreadResolver: turns the copies of all threads of a process into named frames. Unwinds each thread, then
// names all addresses together (one pass per image), then merges.
#pragma once

#include "common/model/stack_snapshot.h"
#include "stackdump/libdw/dw_engine.h"
#include "stackdump/native/symbolizer.h"
#include "stackdump/resolve/interleave.h"
#include "stackdump/resolve/resolve_settings.h"
#include "stackdump/resolve/thread_copy.h"

#include <map>
#include <string>
#include <vector>

namespace xpurun::stackdump {

class ThreadResolver {
 public:
  // `runtime` is null for a process without (known) Python. Everything must outlive this object.
  ThreadResolver(base::Pid pid, ModuleList& modules, SnapshotMemory& memory, const PythonRuntime* runtime,
                 const PySnapshot& python, ResolveSettings settings);

  // Unwinds the thread; `python` is empty if the interpreter does not know the thread.
  void add(const ThreadCopy& thread, std::optional<PyThread> python);
  // Main thread first, the others ordered by thread id.
  std::vector<model::ThreadStack> resolve();
  // The tasks of the snapshot.
  std::vector<model::AsyncTask> tasks() const;
  // Notes on requested work that failed.
  const std::vector<std::string>& notes() const { return notes_; }
  // Of the modules that frames lie in, by file name; complete after resolve().
  const std::map<std::string, std::string>& module_paths() const { return module_paths_; }

 private:
  struct Pending {
    const ThreadCopy* thread = nullptr;
    std::optional<PyThread> python;
    NativeStack native;
  };
  using Names = std::unordered_map<Addr, NamedAddress>;

  model::ThreadStack resolve_one(const Pending& p, const Names& names) const;
  model::ThreadStack facts_of(const Pending& p, const Names& names) const;
  std::string callee_of(const model::Frame& f) const;
  model::Frame native_frame(const NativeFrame& frame, const Names& names) const;
  void append_native(const NativeFrame& frame, bool eval, const Names& names,
                     std::vector<model::Frame>& out) const;
  model::Frame python_frame(const RawFrame& frame) const;
  model::ExceptionLink handled_exception(const HandledException& handled) const;
  model::GilState gil_state(const Pending& p, const Names& names) const;
  bool collects(const Pending& p, const Names& names) const;

  base::Pid pid_;
  ModuleList& modules_;
  const PythonRuntime* runtime_;
  const PySnapshot& python_;
  ResolveSettings settings_;
  std::unique_ptr<Unwinder> unwinder_;
  SourcePlaces sources_;
  std::vector<std::string> notes_;
  std::map<std::string, std::string> module_paths_;
  std::vector<Pending> pending_;
};

}  // namespace xpurun::stackdump
