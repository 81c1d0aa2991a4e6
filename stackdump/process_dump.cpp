#include "stackdump/process_dump.h"

#include "common/base/os/procfs.h"
#include "common/base/strings.h"
#include "stackdump/cpython/locals/handled_exception.h"
#include "stackdump/cpython/locals/locals.h"
#include "stackdump/cpython/module_calls.h"
#include "stackdump/cpython/waits/async_tasks.h"
#include "stackdump/cpython/waits/greenlets.h"
#include "stackdump/cpython/waits/shared_locks.h"
#include "stackdump/cpython/waits/task_locks.h"
#include "stackdump/debuggers/rust_names.h"
#include "stackdump/memory/urgency.h"
#include "stackdump/ptrace/access.h"
#include "stackdump/ptrace/stack_bounds.h"
#include "stackdump/ptrace/traced_process.h"
#include "stackdump/resolve/thread_resolver.h"
#include "stackdump/resolve/wait_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <thread>
#include <unistd.h>

namespace xpurun::stackdump {

namespace {

constexpr int kRetries = 5;
constexpr timespec kRetryPause{.tv_nsec = 2'000'000};
// A thread needs the CPU to reach its stop. On a host with many more runnable threads than cores, a thread
// may get the CPU only after the longest pause that the other threads may have.
constexpr int kStopTries = 3;
constexpr timespec kStopPause{.tv_nsec = 150'000'000};
constexpr int64_t kTasksNs = 200'000'000;  // longest reading of asyncio's tasks, greenlets or locks
constexpr int64_t kRehearsalNs = 50'000'000;
constexpr int64_t kFreshNs = 1'000'000'000;  // at the stop, thread states are at most this old
constexpr uint64_t kUsualStack = 64 << 10;   // used part of most stacks
constexpr uint64_t kSpareBytes = uint64_t{1} << 20;

// Another tracer may be attached right now. If it is another dump helper, it holds the process only for
// milliseconds.
base::Result<TracedProcess> stop_patiently(const DumpTarget& target) {
  for (int i = 0;; ++i) {
    auto traced = TracedProcess::stop(target.pid, base::mono_ns() + target.deadline_ns);
    if (traced || traced.error().sys_errno != EPERM || i == kRetries) {
      return traced;
    }
    ::nanosleep(&kRetryPause, nullptr);
  }
}

// A process that another dump helper stops would look as if a debugger held it.
void await_other_helper(base::Pid pid) {
  constexpr int kMostPauses = 200;  // it is being killed, but on a busy machine that takes its time
  const base::ProcFs proc;
  const auto own = proc.stat(::getpid());
  for (int i = 0; i < kMostPauses; ++i) {
    const base::Pid tracer = tracer_of(pid);
    const auto other = tracer == 0 || tracer == ::getpid() ? std::nullopt : std::optional(proc.stat(tracer));
    if (!other || !*other || !own || (*other)->comm != own->comm) {
      return;
    }
    ::nanosleep(&kRetryPause, nullptr);
  }
}

// The bottom of the main stack, which each exec() chooses anew; 0 without the right to trace the process.
uint64_t start_of_stack(const base::ProcFs& proc, base::Pid pid) {
  constexpr size_t kStartStack = 28 - 3;  // proc(5), counted from the state
  const std::string text = proc.text(pid, "stat");
  const size_t comm = text.rfind(')');
  const auto fields =
      base::split(comm == std::string::npos ? "" : std::string_view(text).substr(comm + 2), ' ');
  return fields.size() > kStartStack ? static_cast<uint64_t>(base::parse_int(fields[kStartStack]).value_or(0))
                                     : 0;
}

// Whether the process runs in a copy of its living parent's memory: a fork without an exec.
bool is_forked(const base::ProcFs& proc, base::Pid pid) {
  const auto stat = proc.stat(pid);
  const uint64_t stack = start_of_stack(proc, pid);
  return stat && stack != 0 && start_of_stack(proc, stat->ppid) == stack;
}

// A lock that a loop asks for again and again is as good as one that the thread waits for.
void take_polls(const std::vector<model::PolledFile>& polls, model::ThreadStack& thread) {
  thread.polls = polls;
  for (const model::PolledFile& file : polls) {
    thread.lock = thread.lock.empty() ? file.lock : thread.lock;
  }
}

// The interpreter's own loops keep their counters in objects: they circle, whatever the program does.
bool is_of_interpreter(const model::Frame& f) {
  return f.kind != model::FrameKind::native || f.eval || f.module.starts_with("python") ||
         f.module.starts_with("libpython");
}

// An Error on one line: what, cause, id.
std::string reason_text(const base::Error& e) {
  std::string out = base::to_line(e);
  if (!e.cause.empty()) {
    out += "; " + e.cause;
  }
  if (!e.hint.empty()) {
    out += "; try: " + e.hint;
  }
  if (!e.id.empty()) {
    out += fmt::format(" [{}]", e.id);
  }
  return out;
}

}  // namespace

ProcessDump::ProcessDump(const DumpTarget& target)
    : target_(target),
      image_(living_thread(target.pid)),
      live_(image_),
      memory_(live_),
      modules_(image_, ProcMaps(), live_) {}

ProcessDump::ProcessDump(ModuleFiles files)
    : image_(0), live_(0), memory_(live_), modules_(std::move(files), ProcMaps(), memory_) {
  memory_.freeze();
}

base::Result<std::unique_ptr<ProcessDump>> ProcessDump::prepare(const DumpTarget& target) {
  XPURUN_TRY(check_alive(target.pid));
  std::unique_ptr<ProcessDump> dump(new ProcessDump(target));
  if (auto maps = ProcMaps::read(dump->image_)) {
    dump->modules_.update(std::move(*maps));
    dump->python_ = find_python(dump->image_, dump->modules_.maps(), dump->live_, LocateEffort::thorough);
    dump->name_python_threads();
  }
  dump->rehearse();
  return dump;
}

// Rehearsal: does all work once that would take time while the process is stopped. This shows which pages are
// needed, and allocates this process's memory for them.
void ProcessDump::rehearse() {
  if (python_.runtime) {
    SnapshotMemory trial(live_);
    const base::MonoNs end = base::mono_ns() + kRehearsalNs;
    PySnapshot python = read_python(trial, *python_.runtime, end);
    (void)read_handled(trial, python_.runtime->offsets, python, end);
    python_pages_ = trial.ranges();
  }
  list_threads();
  uint64_t bytes = kSpareBytes;
  for (const AddrRange& r : python_pages_) {
    bytes += r.size();
  }
  for (const ThreadCopy& t : threads_) {
    const auto waiting = from_syscall_text(t.kernel.syscall_text);
    const AddrRange stack = waiting ? stack_range(*waiting, modules_.maps()) : AddrRange{};
    // Without fs_base the whole rest of the mapping would be copied.
    bytes += std::min<uint64_t>(stack.size(), kUsualStack);
  }
  memory_.reserve(bytes / SnapshotMemory::kPageSize);
  copier_ = std::make_unique<PageCopier>(image_);
  memory_.share_work(*copier_);
}

// Names hardly ever change, so they are not read while the process is stopped.
void ProcessDump::name_python_threads() {
  if (!python_.runtime) {
    return;
  }
  if (thread_tables_.empty()) {
    thread_tables_ = find_thread_tables(live_, *python_.runtime);
  }
  for (auto& [id, name] : read_thread_names(live_, python_.runtime->offsets, thread_tables_)) {
    thread_names_[id] = std::move(name);
  }
}

void ProcessDump::fail(const base::Error& error, model::DumpStatus status) {
  status_ = std::max(status_, status);
  if (reason_.empty()) {
    reason_ = reason_text(error);
  }
}

void ProcessDump::look_for_symbols_in(const std::string& directory) {
  modules_.look_in({.pid = target_.pid, .symbols = directory});
}

void ProcessDump::list_threads() {
  await_other_helper(target_.pid);
  listed_ns_ = base::mono_ns();
  threads_.clear();
  for (base::Tid tid : base::ProcFs().threads(target_.pid)) {
    threads_.push_back({.tid = tid, .kernel = read_kernel_view(target_.pid, tid)});
    name_wait(target_.pid, live_, modules_.maps(), threads_.back().kernel);
    name_peers(threads_.back().kernel, tid == target_.pid ? Wanted::readers_and_writers : Wanted::readers);
  }
}

void ProcessDump::copy_thread_registers(ThreadCopy& thread, std::optional<Registers> registers) {
  if (target_.crash_tid == thread.tid && target_.crash_ucontext != 0) {
    if (auto interrupted = from_ucontext(live_, target_.crash_ucontext)) {
      interrupted->fs_base = registers ? registers->fs_base : 0;
      registers = interrupted;
      thread.crashed = true;
    } else {
      notes_.push_back("the crashed thread's signal context cannot be read");
    }
  }
  if (!registers) {  // asleep in the kernel, or already traced: use /proc's data about a waiting thread
    const auto now = read_kernel_view(target_.pid, thread.tid);
    registers = from_syscall_text(now.syscall_text);
    if (!registers) {
      thread.no_registers = now.state == 'R' ? "running, cannot be stopped" : "no registers";
    }
  }
  thread.registers = registers;
}

void ProcessDump::copy_stacks() {
  // Threads started since prepare() have stacks that the old list lacks.
  const bool unknown = std::any_of(threads_.begin(), threads_.end(), [&](const ThreadCopy& t) {
    return t.registers && stack_range(*t.registers, modules_.maps()).size() == 0;
  });
  if (unknown) {
    if (auto maps = ProcMaps::read(image_)) {
      modules_.update(std::move(*maps));
    }
  }
  std::vector<AddrRange> ranges;
  for (ThreadCopy& t : threads_) {
    if (t.registers) {
      t.stack = stack_range(*t.registers, modules_.maps());
      ranges.push_back(t.stack);
    }
  }
  ranges.insert(ranges.end(), python_pages_.begin(), python_pages_.end());
  memory_.prefetch(ranges);
  // In a second pass: the stack that a signal handler has interrupted is found through the signal frame on
  // the copied stack.
  ranges.clear();
  for (const ThreadCopy& t : threads_) {
    if (t.registers) {
      ranges.push_back(interrupted_stack(memory_, *t.registers, t.stack, modules_.maps()));
    }
  }
  memory_.prefetch(ranges);
}

// Reads the live process: the crashed thread waits in its handler until the dump is done, whether the others
// run or not.
void ProcessDump::read_cpp_exception() {
  for (ThreadCopy& t : threads_) {
    if (t.crashed && t.registers) {
      t.cpp_exception = find_cpp_exception(live_, {.lo = t.registers->sp() & ~Addr{7}, .hi = t.stack.hi});
      t.cpp_exception = t.cpp_exception ? t.cpp_exception : find_abort_message(live_, modules_.maps());
    }
  }
}

void ProcessDump::copy_python(base::MonoNs deadline) {
  if (!python_.runtime) {
    return;
  }
  py_ = read_python(memory_, *python_.runtime, deadline);
  const bool handled = py_.complete && read_handled(memory_, python_.runtime->offsets, py_, deadline);
  if (py_.complete && !handled) {
    notes_.push_back("the time limit passed before all exceptions in handlers were copied");
  }
  if (!py_.complete) {
    fail({.what = "the time limit passed before all Python frames were copied"}, model::DumpStatus::partial);
  } else if (target_.locals == LocalVariables::read &&
             !read_locals(memory_, python_.runtime->offsets, py_, deadline)) {
    notes_.push_back("the time limit passed before all local variables were copied");
  }
  if (target_.module_calls) {
    read_module_calls(memory_, python_.runtime->offsets, py_);
  }
}

ProcessDump::Stopped ProcessDump::copy_stopped(bool last_try) {
  auto traced = stop_patiently(target_);
  // Another tracer came between the check and the stop. The process is then read while it runs.
  if (!traced && tracer_of(target_.pid) != 0) {
    copy_running();
    return Stopped::done;
  }
  if (!traced) {
    fail(traced.error(), model::DumpStatus::failed);
    return Stopped::done;
  }
  const bool late = std::any_of(traced->threads().begin(), traced->threads().end(),
                                [](const TracedThread& t) { return t.state == StopState::seized; });
  if (late && !last_try) {
    return Stopped::too_late;
  }
  stop_ns_ = traced->first_stop_ns();
  wall_ns_ = base::wall_ns();
  size_t next = 0;  // both lists are usually in the order of /proc
  for (const TracedThread& t : traced->threads()) {
    const auto is_this = [&](const ThreadCopy& c) { return c.tid == t.tid; };
    auto it = threads_.begin() + static_cast<ptrdiff_t>(next);
    if (it == threads_.end() || !is_this(*it)) {
      it = std::find_if(threads_.begin(), threads_.end(), is_this);
    }
    if (it == threads_.end()) {  // started since list_threads(); /proc would show it as stopped
      it = threads_.insert(threads_.end(), {.tid = t.tid, .kernel = {.state = 'R'}});
    }
    next = static_cast<size_t>(it - threads_.begin()) + 1;
    copy_thread_registers(*it, traced->registers(t));
    if (t.state == StopState::asleep || t.state == StopState::seized) {
      it->kernel.state = t.state == StopState::asleep ? 'D' : it->kernel.state;
      it->kernel_stack = kernel_stack(target_.pid, t.tid);
      notes_.push_back(fmt::format("thread {} could not be stopped ({})", t.tid,
                                   t.state == StopState::asleep ? "uninterruptible sleep" : "time limit"));
      if (t.state == StopState::seized) {
        fail({.what = fmt::format("thread {} did not stop in time", t.tid)}, model::DumpStatus::partial);
      }
    }
  }
  copy_stacks();
  copy_python(traced->deadline());
  traced->resume();
  pause_ns_ = base::mono_ns() - stop_ns_;
  read_cpp_exception();
  return Stopped::done;
}

void ProcessDump::copy_running() {
  method_ = "no-stop";
  stop_ns_ = base::mono_ns();
  wall_ns_ = base::wall_ns();
  if (target_.stop == StopMode::if_possible) {
    fail(explain_refusal(target_.pid, 0), model::DumpStatus::partial);
  }
  for (ThreadCopy& t : threads_) {
    copy_thread_registers(t, std::nullopt);
  }
  copy_stacks();
  copy_python(base::mono_ns() + target_.deadline_ns);
  read_cpp_exception();
  for (ThreadCopy& t : threads_) {
    // Copied while running: valid only if the thread still waits in the same call.
    if (t.registers && !t.crashed) {
      const auto again = from_syscall_text(read_kernel_view(target_.pid, t.tid).syscall_text);
      if (!again || again->r != t.registers->r) {
        t.registers.reset();
        t.no_registers = "ran while being read";
      }
    }
  }
}

void ProcessDump::copy() {
  if (base::mono_ns() - listed_ns_ > kFreshNs) {
    list_threads();
  }
  if (!python_.runtime) {
    if (auto maps = ProcMaps::read(image_)) {
      modules_.update(std::move(*maps));
      python_ = find_python(image_, modules_.maps(), live_, LocateEffort::quick);
    }
  }
  const base::Pid tracer = tracer_of(target_.pid);
  if (target_.stop == StopMode::never || (tracer != 0 && tracer != ::getpid())) {
    copy_running();
  } else {
    // Each try runs in its own thread: when the thread ends, the kernel detaches from every thread of the
    // target that would stop only later.
    Stopped result = Stopped::too_late;
    for (int i = 1; i <= kStopTries && result == Stopped::too_late; ++i) {
      if (i > 1) {
        ::nanosleep(&kStopPause, nullptr);
      }
      std::thread([this, i, &result] {
        become_urgent();
        result = copy_stopped(i == kStopTries);
      }).join();
    }
  }
  memory_.freeze();
  copier_.reset();
  name_python_threads();
  if (python_.runtime && py_.complete) {
    // The tasks that a hang is about do not move, so that nothing is stopped for them.
    read_tasks(live_, *python_.runtime, modules_, py_, base::mono_ns() + kTasksNs);
    read_greenlets(live_, *python_.runtime, py_, base::mono_ns() + kTasksNs);
    read_task_locks(live_, python_.runtime->offsets, py_, base::mono_ns() + kTasksNs);
    thread_locks_ = read_thread_locks(live_, python_.runtime->offsets, py_, base::mono_ns() + kTasksNs);
    store_keys_ = read_store_keys(live_, python_.runtime->offsets, py_, base::mono_ns() + kTasksNs);
    shares_ = read_sharers(live_, python_.runtime->offsets, py_, base::mono_ns() + kTasksNs);
    held_locks_ = read_held_locks(live_, *python_.runtime, modules_.maps(), base::mono_ns() + kTasksNs);
  }
  for (PyThread& t : py_.threads) {
    if (const auto it = thread_names_.find(t.thread_id); it != thread_names_.end()) {
      t.name = it->second;
    }
  }
  if (status_ == model::DumpStatus::failed) {
    method_ = "kernel";
    for (ThreadCopy& t : threads_) {
      t.kernel_stack = kernel_stack(target_.pid, t.tid);
    }
  }
  // Libraries loaded since prepare(). Mappings that still exist cannot have moved.
  if (auto maps = ProcMaps::read(image_); maps && !maps->all().empty()) {
    modules_.update(std::move(*maps));
  }
}

// The thread id in the process's own PID namespace.
base::Tid ProcessDump::inner_tid_of(const ThreadCopy& thread) const {
  if (recorded_ || core_) {
    return thread.inner_tid;
  }
  const auto status = base::ProcFs().thread_status(target_.pid, thread.tid);
  return status && !status->ns_pid.empty() ? status->ns_pid.back() : thread.tid;
}

std::optional<PyThread> ProcessDump::python_of(const ThreadCopy& thread) const {
  const uint64_t fs_base = thread.registers ? thread.registers->fs_base : 0;
  const auto native = fs_base == 0 ? static_cast<uint64_t>(inner_tid_of(thread)) : 0;
  // A thread may have several states: one for each interpreter that it has entered and, up to 3.11, briefly
  // also the states of threads that it is starting. The latter have no frames.
  std::optional<PyThread> found;
  const PyThread* own = nullptr;
  for (const PyThread& t : py_.threads) {
    // Until 3.12, the state of a subinterpreter may have the ids of the thread that has made it. Its frames
    // lie on the stack of the thread that runs it.
    const bool foreign = t.interpreters != std::vector<int64_t>{0} && !t.groups.empty() &&
                         t.groups.front().anchor != 0 && thread.stack.size() > 0;
    const bool same = foreign        ? thread.stack.contains(t.groups.front().anchor)
                      : fs_base != 0 ? t.thread_id == fs_base
                                     : t.native_id == native;
    if (!same) {
      continue;
    }
    own = foreign ? own : &t;
    if (!found || found->groups.empty()) {
      const PyThread earlier = found.value_or(PyThread{});
      found = t;
      found->holds_gil |= earlier.holds_gil;
      found->collecting |= earlier.collecting;
    } else if (!t.groups.empty()) {
      found->holds_gil |= t.holds_gil;
      found->collecting |= t.collecting;
      found->interpreters.insert(found->interpreters.end(), t.interpreters.begin(), t.interpreters.end());
      found->groups.insert(found->groups.end(), t.groups.begin(), t.groups.end());
      std::stable_sort(found->groups.begin(), found->groups.end(),
                       [](const FrameGroup& a, const FrameGroup& b) { return a.anchor < b.anchor; });
    }
  }
  if (found && own != nullptr) {
    found->name = own->name;
    found->thread_id = own->thread_id;
    found->native_id = own->native_id;
  }
  return found;
}

std::vector<model::Interpreter> ProcessDump::interpreters() const {
  std::vector<model::Interpreter> out;
  for (const PyInterpreter& i : py_.interpreters) {
    base::Tid holder = 0;
    for (const PyThread& t : py_.threads) {
      for (const ThreadCopy& c : threads_) {
        const bool same = c.registers && c.registers->fs_base == t.thread_id;
        holder = t.address == i.gil_holder && same ? c.tid : holder;
      }
    }
    out.push_back({.id = i.id, .gil_holder = holder, .gc = i.collecting});
  }
  return out;
}

model::ProcessStacks ProcessDump::describe() const {
  const base::ProcFs proc;
  model::ProcessStacks out;
  out.pid = target_.pid;
  if (const auto stat = proc.stat(target_.pid)) {
    out.comm = base::sanitize(stat->comm);
  }
  out.cmdline = proc.cmdline(image_);
  out.forked = is_forked(proc, target_.pid);
  out.wall_ns = wall_ns_ != 0 ? wall_ns_ : base::wall_ns();
  out.mono_ns = stop_ns_ != 0 ? stop_ns_ : base::mono_ns();
  out.pause_ns = pause_ns_;
  out.method = method_;
  return out;
}

model::ProcessStacks ProcessDump::resolve(const ResolveSettings& settings) {
  ThreadResolver resolver(target_.pid, modules_, memory_, python_.runtime ? &*python_.runtime : nullptr, py_,
                          settings);
  for (const ThreadCopy& t : threads_) {
    resolver.add(t, python_of(t));
  }
  auto threads = resolver.resolve();
  demangle_rust(threads);
  notes_.insert(notes_.end(), resolver.notes().begin(), resolver.notes().end());
  if (recorded_) {
    return resolve_recorded(std::move(threads));
  }
  model::ProcessStacks out = core_ ? describe_core() : describe();
  if (python_.runtime) {
    out.python_version = python_.runtime->version;
  } else if (python_.why != NoPython::absent) {
    notes_.insert(notes_.begin(), "native stacks only: " + python_.reason);
  }
  if (core_) {
    // The thread that got the signal comes first.
    std::stable_partition(threads.begin(), threads.end(),
                          [](const model::ThreadStack& t) { return t.crashed; });
    for (const std::string& missing : modules_.missing()) {
      notes_.push_back(missing);
    }
  }
  for (model::ThreadStack& t : threads) {
    if (t.main) {
      take_polls(main_polls_, t);
    }
    t.circles = t.main && main_circles_ && !t.frames.empty() && !is_of_interpreter(t.frames.front());
  }
  out.threads = std::move(threads);
  name_lock_holders(thread_locks_, out.threads);
  name_store_keys(store_keys_, out.threads);
  name_sharers(shares_, out.threads);
  out.module_paths = resolver.module_paths();
  out.with_locals = py_.with_locals;
  out.interpreters = interpreters();
  out.tasks = resolver.tasks();
  out.held_locks = held_locks_;
  out.status = status_;
  out.reason = reason_;
  out.notes = notes_;
  return out;
}

}  // namespace xpurun::stackdump
