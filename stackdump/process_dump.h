// ProcessDump: the only entry point for a snapshot of a process. prepare() reads without stopping the
// process; copy() stops the process for some milliseconds and copies registers, stacks and Python structures;
// resolve() unwinds and names the frames offline. Runs in the dump helper, because resolve() works on
// untrusted data.
#pragma once

#include "common/base/clock.h"
#include "common/model/stack_snapshot.h"
#include "stackdump/core/core_memory.h"
#include "stackdump/core/core_process.h"
#include "stackdump/cpython/frames.h"
#include "stackdump/cpython/thread_names.h"
#include "stackdump/cpython/waits/shared_objects.h"
#include "stackdump/cpython/waits/store_keys.h"
#include "stackdump/cpython/waits/task_locks.h"
#include "stackdump/memory/live_memory.h"
#include "stackdump/memory/snapshot_memory.h"
#include "stackdump/native/modules.h"
#include "stackdump/native/unwinder.h"
#include "stackdump/resolve/resolve_settings.h"
#include "stackdump/resolve/thread_copy.h"

#include <memory>
#include <optional>

namespace xpurun::stackdump {

enum class StopMode {
  if_possible,  // read a process that is already traced while it runs
  never,        // read it while it runs
};

enum class LocalVariables { leave, read };

struct DumpTarget {
  base::Pid pid = 0;
  int64_t deadline_ns = 100'000'000;  // longest pause of the process
  LocalVariables locals = LocalVariables::leave;
  base::Tid crash_tid = 0;  // thread that waits in its crash handler; 0: none
  Addr crash_ucontext = 0;  // its interrupted state
  StopMode stop = StopMode::if_possible;
  bool module_calls = false;  // frames that call PyTorch's modules have the name of the class
};

// An open core file and its memory.
struct CoreSource {
  explicit CoreSource(CoreFile opened) : file(std::move(opened)), dumped(file), memory(file) {}

  CoreFile file;
  DumpedMemory dumped;
  CoreMemory memory;
  CoreArguments arguments;
};

class ProcessDump {
 public:
  static base::Result<std::unique_ptr<ProcessDump>> prepare(const DumpTarget& target);
  ProcessDump(const ProcessDump&) = delete;
  ProcessDump& operator=(const ProcessDump&) = delete;

  // Adds a directory with ELF files and debug files; see ModuleFiles.
  void look_for_symbols_in(const std::string& directory);
  // Never fails as a whole: the result names the missing parts.
  void copy();
  // After copy(): whether the main thread circles in native code (loop_watch.h), which takes some 60 ms,
  // raises and catches an exception again and again (resolve/raise_watch.h), which takes 200 ms, or is in a
  // loop that looks for a file (resolve/call_watch.h), which takes up to `limit_ns`.
  void watch_for_loop(int64_t limit_ns);
  base::MonoNs stop_ns() const { return stop_ns_; }
  int64_t pause_ns() const { return pause_ns_; }

  // The caller sets host, rank and role, except for a loaded dump.
  model::ProcessStacks resolve(const ResolveSettings& settings);

  // The copied data as a file, which load() reads back. `stacks` is the result of resolve().
  base::Status save(const std::string& path, const model::ProcessStacks& stacks);
  // `file` is the content. `files` says where to search for ELF files.
  static base::Result<std::unique_ptr<ProcessDump>> load(std::string_view file, ModuleFiles files);
  // The process of a core file. `files` says where to search for ELF files. E-CORE if the file, or
  // files.program, is not usable.
  static base::Result<std::unique_ptr<ProcessDump>> from_core(const std::string& path, ModuleFiles files,
                                                              LocalVariables locals);
  // Of a dump made by from_core(), else null.
  const CoreSource* core() const { return core_.get(); }

 private:
  explicit ProcessDump(const DumpTarget& target);
  explicit ProcessDump(ModuleFiles files);
  ProcessDump(std::unique_ptr<CoreSource> core, ModuleFiles files);
  base::Status check_program();
  void take_core_threads();
  void take_core_python(LocalVariables locals);
  model::ProcessStacks describe() const;
  model::ProcessStacks describe_core() const;
  model::ProcessStacks resolve_recorded(std::vector<model::ThreadStack> threads);
  base::Tid inner_tid_of(const ThreadCopy& thread) const;
  void rehearse();
  void list_threads();
  enum class Stopped { done, too_late };
  // too_late: a thread did not stop in time, nothing was copied, and this was not the last try.
  Stopped copy_stopped(bool last_try);
  void copy_running();
  void copy_thread_registers(ThreadCopy& thread, std::optional<Registers> registers);
  void copy_stacks();
  void copy_python(base::MonoNs deadline);
  void read_cpp_exception();
  void name_python_threads();
  std::vector<model::Interpreter> interpreters() const;
  std::optional<PyThread> python_of(const ThreadCopy& thread) const;
  PyThread* main_python(const ThreadCopy& main);
  void follow_calls(const KernelView& wait, PyThread* python, int64_t limit_ns);
  void fail(const base::Error& error, model::DumpStatus status);

  DumpTarget target_;
  base::Pid image_;  // the thread through which the process's memory and mappings are read
  LiveMemory live_;
  std::unique_ptr<PageCopier> copier_;  // exists until everything is copied
  std::unique_ptr<CoreSource> core_;    // the source instead of a live process
  SnapshotMemory memory_;
  ModuleList modules_;
  PythonLookup python_;
  PySnapshot py_;
  std::vector<model::SharedLock> held_locks_;
  std::vector<ThreadLock> thread_locks_;
  std::vector<StoreKey> store_keys_;
  std::vector<ObjectShare> shares_;
  std::vector<AddrRange> python_pages_;  // pages that reading Python's structures touched in the rehearsal
  std::vector<Addr> thread_tables_;
  ThreadNames thread_names_;
  std::vector<ThreadCopy> threads_;
  bool main_circles_ = false;
  std::vector<model::PolledFile> main_polls_;
  base::MonoNs listed_ns_ = 0;
  base::MonoNs stop_ns_ = 0;
  int64_t wall_ns_ = 0;
  int64_t pause_ns_ = 0;
  std::string method_ = "ptrace";
  model::DumpStatus status_ = model::DumpStatus::ok;
  std::string reason_;
  std::vector<std::string> notes_;
  model::FatalSignal fatal_signal_;
  std::optional<model::ProcessStacks> recorded_;  // loaded from a file: the stacks resolved on the original
                                                  // host
};

}  // namespace xpurun::stackdump
