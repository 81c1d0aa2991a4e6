#include "report/diagnosis/holders.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/frame_text.h"
#include "report/diagnosis/waits/async_waits.h"
#include "report/diagnosis/waits/code_place.h"
#include "report/diagnosis/waits/thread_waits.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

namespace xpurun::report {

using base::later;
using base::tr;
using model::Frame;
using model::GilState;
using model::ProcessStacks;
using model::ThreadStack;

namespace {

constexpr size_t kMostTasks = 3;  // told of

// Libraries with threads of their own, which a fork does not copy. The names begin a module's or a
// function's.
struct ThreadLibrary {
  std::string_view module;
  std::string_view function;
  std::string_view name;
  std::string_view cure;
};
constexpr std::string_view kOneThread = later("or use one thread in the parent (OMP_NUM_THREADS=1)");
constexpr ThreadLibrary kLibraries[] = {
    {"libgomp", "", "OpenMP", kOneThread},
    {"libomp", "", "OpenMP", kOneThread},
    {"libiomp", "", "OpenMP", kOneThread},
    {"tokenizers", "", "rayon", later("or set TOKENIZERS_PARALLELISM=false")},
    {"polars", "", "rayon", later("or use polars in the child only")},
    {"", "rayon", "rayon", later("or use the library in the child only")},
    {"", "grpc_core", "gRPC", later("or use gRPC in the child only")},
    {"cygrpc", "", "gRPC", later("or use gRPC in the child only")}};

const ThreadLibrary* library_of(const ThreadStack& thread) {
  for (const Frame& f : thread.frames) {
    for (const ThreadLibrary& l : kLibraries) {
      const bool module =
          !l.module.empty() && f.kind == model::FrameKind::native && f.module.starts_with(l.module);
      const bool function = !l.function.empty() && (f.func.find(l.function) != std::string::npos);
      if (module || function) {
        return &l;
      }
    }
  }
  return nullptr;
}

const ThreadStack* thread_of(const ProcessStacks& p, base::Tid tid) {
  const auto it =
      std::find_if(p.threads.begin(), p.threads.end(), [tid](const ThreadStack& t) { return t.tid == tid; });
  return it == p.threads.end() ? nullptr : &*it;
}

// The stack tells a mutex, or a lock for readers and writers, from other futexes.
bool locks_mutex(const ThreadStack& t) {
  return std::any_of(t.frames.begin(), t.frames.end(), [&](const Frame& f) {
    return t.lock.kind == "mutex"
               ? f.func.find("lll_lock_wait") != std::string::npos ||
                     f.func.find("pthread_mutex_lock") != std::string::npos
               : t.lock.kind == "rwlock" && f.func.find("pthread_rwlock_") != std::string::npos;
  });
}

size_t python_threads(const ProcessStacks& p) {
  return static_cast<size_t>(std::count_if(p.threads.begin(), p.threads.end(), runs_python));
}

// What only a thread of the parent can give: a mutex of a thread that is not here, a lock of Python although
// no other thread runs Python, or the work of a library's threads.
bool waits_for_lost_thread(const ProcessStacks& p) {
  const ThreadStack* main = p.main_thread();
  if (!p.forked || main == nullptr) {
    return false;
  }
  const bool lost_mutex = locks_mutex(*main) && thread_of(p, main->lock.tid) == nullptr;
  const bool lost_lock = acquires_lock(*main) && python_threads(p) == 1 && !in_multiprocessing(main->frames);
  return lost_mutex || lost_lock || (main->state == 'S' && library_of(*main) != nullptr);
}

const ProcessStacks* parent_of(const Scene& scene, const ProcessStacks& p) {
  const auto& all = scene.facts.run.processes;
  const auto record = std::find_if(all.begin(), all.end(), [&](const auto& r) { return r.pid == p.pid; });
  if (record == all.end()) {
    return nullptr;
  }
  const auto it =
      std::find_if(scene.facts.stacks.begin(), scene.facts.stacks.end(),
                   [&](const ProcessStacks& s) { return s.pid == record->ppid && s.host == p.host; });
  return it == scene.facts.stacks.end() ? nullptr : &*it;
}

// The thread that holds the mutex that this one waits for, perhaps this one; null: none, or not known.
const ThreadStack* mutex_owner(const ProcessStacks& p, const ThreadStack& t) {
  return locks_mutex(t) ? thread_of(p, t.lock.tid) : nullptr;
}

// Two threads, each of which holds what the other waits for, or one that holds what the rank waits for.
std::string mutex_words(const ProcessStacks& p, const ThreadStack& t) {
  const ThreadStack* owner = mutex_owner(p, t);
  if (owner == nullptr) {
    return {};
  }
  if (owner == &t) {
    return tr(": it waits for a mutex that it holds itself");
  }
  if (owner->gil == GilState::waiting) {
    return tr(
        ": deadlock: it holds the GIL and waits for a mutex that {} holds, which waits for the GIL in {}",
        thread_words(*owner), place(place_of(owner->frames)));
  }
  if (mutex_owner(p, *owner) == &t) {
    return tr(": deadlock: it waits for a mutex that {} holds, which waits in {} for a mutex that it holds",
              thread_words(*owner), place(place_of(owner->frames)));
  }
  return tr(": {} holds the mutex, in {}", thread_words(*owner), place(place_of(owner->frames)));
}

// ": thread 105 (saver) holds the lock, in save_all (train.py:6: q.get)"; of the lock of an import, ": thread
// 105 (saver) is importing tables.py, in <module> (tables.py:3: s.recv)". Two threads that wait for each
// other's locks are told of together.
std::string thread_lock_words(const RankView& v) {
  if (const Import import = awaited_import(*v.stacks, *v.thread); import.thread != nullptr) {
    return tr(": {} is importing {}, in {}", thread_words(*import.thread),
              base::sanitize(model::source_name(import.module->file)),
              place(place_of(import.thread->frames)));
  }
  if (const ThreadStack* out = v.waits_locally() ? locked_out_by(*v.stacks, *v.thread) : nullptr) {
    return tr("{}: {} waits in {} for a lock that {} holds meanwhile",
              is_deadlock(*v.stacks, *v.thread, *out) ? tr(": deadlock") : "", thread_words(*out),
              place(place_of(out->frames)), thread_words(*v.thread));
  }
  const ThreadStack* owner = v.thread->lock.kind == "lock" && acquires_lock(*v.thread)
                                 ? thread_of(*v.stacks, v.thread->lock.tid)
                                 : nullptr;
  if (owner == v.thread) {
    return tr(": it waits for a lock that it holds itself");
  }
  const bool waits = std::find(v.in_acquire.begin(), v.in_acquire.end(), owner) != v.in_acquire.end();
  return owner == nullptr || waits
             ? std::string()
             : tr(": {} holds the lock, in {}", thread_words(*owner), place(place_of(owner->frames)));
}

std::string command_of(const Scene& scene, base::Pid pid) {
  for (const ProcessStacks& s : scene.facts.stacks) {
    if (s.pid == pid) {
      return s.comm;
    }
  }
  return {};
}

bool waits_for_file(const RankView& v) {
  return v.thread != nullptr && !v.thread->lock.pids.empty();
}

// Whether the process, or (of a lock of multiprocessing) which of its threads, holds the lock.
bool holds(const ProcessStacks& p, const model::LockHolder& lock) {
  return std::find(lock.pids.begin(), lock.pids.end(), p.pid) != lock.pids.end() ||
         std::any_of(p.held_locks.begin(), p.held_locks.end(),
                     [&](const model::SharedLock& held) { return held.path == lock.path; });
}

// The process of the waiter's host that holds the lock of multiprocessing.
const ProcessStacks* shared_lock_holder(const Scene& scene, const std::string& host,
                                        const ThreadStack& waiter) {
  const auto& all = scene.facts.stacks;
  const auto it = !waits_for_shared_lock(waiter)
                      ? all.end()
                      : std::find_if(all.begin(), all.end(), [&](const ProcessStacks& s) {
                          return s.host == host && holds(s, waiter.lock);
                        });
  return it == all.end() ? nullptr : &*it;
}

// Where the thread that has acquired the lock is.
std::string place_of_holder(const ProcessStacks& p, const model::LockHolder& lock) {
  const ThreadStack* thread = p.main_thread();
  for (const model::SharedLock& held : p.held_locks) {
    const auto it = std::find_if(p.threads.begin(), p.threads.end(), [&](const ThreadStack& t) {
      return held.path == lock.path && t.thread_id == held.thread_id;
    });
    thread = it != p.threads.end() ? &*it : thread;
  }
  return place(thread != nullptr ? place_of(thread->frames) : model::CodeLocation());
}

// " for the lock that Task-2 holds", " for the end of Task-2". `shown`: the task whose place is that of the
// rank; may be null.
std::string task_lock_words(const ProcessStacks& p, const model::AsyncTask& task,
                            const model::AsyncTask* shown) {
  if (const model::AsyncTask* next = awaited_in_circle(p, task); next != nullptr) {
    return tr(" for the end of {}", base::sanitize(next->name));
  }
  const auto holder = std::find_if(p.tasks.begin(), p.tasks.end(),
                                   [&](const model::AsyncTask& t) { return t.id == task.awaits; });
  if (!waits_for_task_lock(task) || holder == p.tasks.end()) {
    return {};
  }
  if (holder->id == task.id) {
    return tr(" for a lock that it holds itself");
  }
  return &*holder == shown && !waits_for_task_lock(*shown)
             ? tr(" for the lock that is held there")
             : tr(" for the lock that {} holds", base::sanitize(holder->name));
}

}  // namespace

const RankView* lock_holder(const Scene& scene, const RankView& v) {
  if (v.thread == nullptr || (!waits_for_file(v) && !waits_for_shared_lock(*v.thread))) {
    return nullptr;
  }
  const model::LockHolder& lock = v.thread->lock;
  for (const RankView& other : scene.ranks) {
    const bool named = std::find(lock.pids.begin(), lock.pids.end(), other.pid) != lock.pids.end();
    const auto& all = scene.facts.stacks;
    const auto of_other = [&](const ProcessStacks& s) {
      return s.rank == other.rank && (s.host.empty() || s.host == v.host) && holds(s, lock);
    };
    if (other.host == v.host && other.rank != v.rank &&
        (named || std::any_of(all.begin(), all.end(), of_other))) {
      return &other;
    }
  }
  return nullptr;
}

std::string held_words(const RankView& v) {
  return waits_for_file(v) ? tr("the lock on {}", base::sanitize(base::base_name(v.thread->lock.path)))
                           : tr("the lock");
}

std::string holder_words(const Scene& scene, const RankView& v) {
  if (v.thread == nullptr || v.stacks == nullptr || v.state != RankState::stuck) {
    return {};
  }
  if (waits_for_file(v) && lock_holder(scene, v) == nullptr) {
    const base::Pid pid = v.thread->lock.pids.front();
    const std::string comm = command_of(scene, pid);
    const std::string who = pid == v.pid   ? tr("the rank itself")
                            : comm.empty() ? tr("pid {}, which is no rank of this job", pid)
                                           : tr("pid {} ({})", pid, base::sanitize(comm));
    return tr(": {} is locked by {}", base::sanitize(base::base_name(v.thread->lock.path)), who);
  }
  if (std::string lock = thread_lock_words(v); !lock.empty()) {
    return lock;
  }
  const std::string mutex = mutex_words(*v.stacks, *v.thread);
  const std::string shared = mutex.empty() ? shared_lock_words(scene, *v.stacks) : mutex;
  return shared.empty() ? fork_words(scene, *v.stacks) : shared;
}

std::string shared_lock_words(const Scene& scene, const ProcessStacks& process) {
  const ThreadStack* waiter = process.main_thread();
  const ProcessStacks* holder =
      waiter == nullptr ? nullptr : shared_lock_holder(scene, process.host, *waiter);
  if (holder == nullptr) {
    return {};
  }
  return holder == &process ? tr(", for a lock that it holds itself")
                            : tr(", for a lock that pid {} holds in {}", holder->pid,
                                 place_of_holder(*holder, waiter->lock));
}

bool waits_in_vain(const Scene& scene, const ProcessStacks& process) {
  const ProcessStacks* parent = parent_of(scene, process);
  return waits_for_lost_thread(process) && (parent == nullptr || parent->threads.size() >= 2);
}

std::string fork_words(const Scene& scene, const ProcessStacks& process) {
  if (!waits_in_vain(scene, process)) {
    return {};
  }
  const ThreadLibrary* library = library_of(*process.main_thread());
  return library != nullptr
             ? tr(", forked after {} had started threads in its parent, which do not exist in it",
                  library->name)
             : tr(", forked while its parent had other threads: the one that holds the lock does not exist "
                  "in it");
}

namespace {

// "; its task Task-2 has raised ValueError in fill (train.py:4)".
std::string failed_clause(const ProcessStacks& process) {
  const model::AsyncTask* failed = failed_task(process);
  return failed == nullptr ? std::string()
                           : tr("; its task {} has raised {} in {}", base::sanitize(failed->name),
                                base::sanitize(exception_of(*failed)), place(place_of(*failed)));
}

std::string tasks_clause(const model::ProcessStacks& process, const ThreadStack& thread) {
  const bool blocked = blocks_loop(thread);
  std::vector<const model::AsyncTask*> tasks = last_tasks(process);
  std::string out;
  const model::AsyncTask* shown = nullptr;  // the position of the rank is that of this task
  if (!blocked && loop_waits(thread) && !tasks.empty()) {
    shown = tasks.front();
    tasks.erase(tasks.begin());
    const std::string lock = task_lock_words(process, *shown, shown);
    out = lock.empty() ? lock : tr("; its task {} waits there{}", base::sanitize(shown->name), lock);
  }
  // A task whose frame is on the stack of the thread is the one that blocks.
  std::erase_if(tasks, [&](const model::AsyncTask* task) {
    return blocked && std::any_of(thread.frames.begin(), thread.frames.end(), [&](const Frame& f) {
             return f.kind == model::FrameKind::python && f.func == task->frames.back().func &&
                    f.file == task->frames.back().file;
           });
  });
  if (tasks.empty() || (!blocked && !loop_waits(thread))) {
    return blocked ? tr("; it blocks the event loop of its thread, which may have to end that wait") : out;
  }
  const bool more = !out.empty();
  out += blocked ? tr("; it blocks the event loop of its thread, on which others have to run: ") : "";
  std::set<std::string> told;
  for (const model::AsyncTask* task : tasks) {
    const std::string at = place(place_of(*task)) + task_lock_words(process, *task, shown);
    if (told.size() == kMostTasks || !told.insert(at).second) {
      continue;
    }
    const std::string name = base::sanitize(task->name);
    if (blocked) {
      out += (told.size() == 1 ? "" : tr(", ")) + tr("{} in {}", name, at);
    } else {
      out +=
          told.size() == 1 && !more ? tr("; its task {} waits in {}", name, at) : tr(", {} in {}", name, at);
    }
  }
  return out + (tasks.size() > told.size() ? tr(" ({} tasks in all)", tasks.size()) : "");
}

}  // namespace

std::string async_clause(const model::ProcessStacks& process, const ThreadStack& thread) {
  if (stops_own_server(thread)) {
    return tr("; it waits for the end of serve_forever(), which has called it");
  }
  return loop_waits(thread) ? failed_clause(process) + tasks_clause(process, thread)
                            : tasks_clause(process, thread);
}

std::string async_advice(const RankView& v) {
  if (v.state != RankState::stuck || v.stacks == nullptr || v.thread == nullptr || !loop_waits(*v.thread)) {
    return {};
  }
  if (failed_task(*v.stacks) != nullptr) {
    return tr("mend the exception of that task, and await the task: it is raised again there");
  }
  const auto tasks = last_tasks(*v.stacks);
  const auto holds = [&](const auto& is) {
    return std::any_of(tasks.begin(), tasks.end(), [&](const model::AsyncTask* t) { return is(*t); });
  };
  if (holds([&](const model::AsyncTask& t) { return awaited_in_circle(*v.stacks, t) != nullptr; })) {
    return tr("let one of these tasks end without awaiting the next one");
  }
  return holds(waits_for_task_lock)
             ? tr("take the locks in the same order in all tasks, and release them before a "
                  "long wait")
             : std::string();
}

std::string import_advice(const RankView& v) {
  if (v.state != RankState::stuck || v.stacks == nullptr || v.thread == nullptr) {
    return {};
  }
  for (const ThreadStack& t : v.stacks->threads) {
    const Import import = awaited_import(*v.stacks, t);
    if (import.thread != nullptr && (&t == v.thread || import.thread == v.thread)) {
      return tr("wait for nothing while a module is imported: move that part of {} into a function",
                base::sanitize(model::source_name(import.module->file)));
    }
  }
  return {};
}

std::string holder_advice(const Scene& scene, const RankView& v, const ProcessStacks* helper) {
  for (std::string cure : {import_advice(v), async_advice(v)}) {
    if (!cure.empty()) {
      return cure;
    }
  }
  for (const ProcessStacks* p : {v.stacks, helper}) {
    if (p == nullptr || fork_words(scene, *p).empty()) {
      continue;
    }
    const ThreadLibrary* library = library_of(*p->main_thread());
    return tr("start processes with spawn or forkserver (DataLoader: multiprocessing_context=\"spawn\"){}",
              library != nullptr ? tr(", ") + tr(library->cure) : tr(", or before the first thread"));
  }
  if (const ThreadStack* owner =
          v.thread != nullptr && v.stacks != nullptr ? mutex_owner(*v.stacks, *v.thread) : nullptr;
      owner != nullptr) {
    return owner == v.thread
               ? tr("unlock the mutex on each way out of the code that locks it, errors included")
           : owner->gil == GilState::waiting
               ? tr("release the GIL before locking the mutex, or call no Python while holding it")
           : mutex_owner(*v.stacks, *owner) == v.thread
               ? tr("take the locks in the same order in all threads")
               : tr("find out why {} does not unlock the mutex", thread_words(*owner));
  }
  if (v.thread != nullptr && v.stacks != nullptr && v.waits_locally() &&
      locked_out_by(*v.stacks, *v.thread) != nullptr) {
    return tr("give the lock back before the wait for the other thread");
  }
  if (v.holds_its_own_lock()) {
    return tr("give the lock back before it is taken again, or make it a threading.RLock");
  }
  if (waits_for_file(v)) {
    return tr("find out why the lock on {} is not released", base::sanitize(v.thread->lock.path));
  }
  return {};
}

}  // namespace xpurun::report
