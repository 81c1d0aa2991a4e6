#include "report/diagnosis/waits/thread_waits.h"

#include "common/base/os/system_call.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/waits/code_place.h"
#include "report/diagnosis/waits/wait_patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace xpurun::report {

using base::tr;
using model::Frame;
using model::FrameKind;
using model::GilState;
using model::ProcessStacks;
using model::ThreadStack;

namespace {

// CPython's own names; the first and the last two are exported, so they survive stripping.
constexpr std::array<std::string_view, 6> kAcquire = {"PyThread_acquire_lock", "lock_PyThread_acquire_lock",
                                                      "acquire_timed",         "rlock_acquire",
                                                      "PyMutex_Lock",          "_PyMutex_Lock"};

bool is_acquire(const Frame& f) {
  return f.kind == FrameKind::native &&
         std::any_of(kAcquire.begin(), kAcquire.end(),
                     [&](std::string_view name) { return f.func.starts_with(name); });
}

// Conditions, events and joins are built from locks without owners. acquire() and __enter__() belong to the
// object that the user asked for.
bool only_signals(const Frame& f) {
  const std::string_view name = last_component(f.func);
  return (f.file.ends_with("/threading.py") || f.file.ends_with("/multiprocessing/synchronize.py")) &&
         name != "acquire" && name != "__enter__";
}

// SimpleQueue, from which the threads of an executor take their work, is written in C around a lock.
bool takes_from_queue(const Frame& caller, const std::vector<Frame>& frames) {
  return caller.callee.ends_with(".get") || std::any_of(frames.begin(), frames.end(), [](const Frame& f) {
           return f.kind == FrameKind::native && f.func.find("SimpleQueue") != std::string::npos;
         });
}

}  // namespace

const ThreadStack* gil_holder(const ProcessStacks& process, const ThreadStack& waiter) {
  if (waiter.gil != GilState::waiting) {
    return nullptr;
  }
  const auto holds = [&](const ThreadStack& t) {
    return t.tid != waiter.tid &&
           (t.gil == GilState::holder ||
            std::any_of(process.interpreters.begin(), process.interpreters.end(),
                        [&](const model::Interpreter& i) { return i.gil_holder == t.tid; }));
  };
  const auto it = std::find_if(process.threads.begin(), process.threads.end(), holds);
  return it == process.threads.end() ? nullptr : &*it;
}

bool acquires_lock(const ThreadStack& thread) {
  const auto& frames = thread.frames;
  const auto caller =
      std::find_if(frames.begin(), frames.end(), [](const Frame& f) { return f.kind == FrameKind::python; });
  if (caller == frames.end() || only_signals(*caller) || thread.gil == GilState::waiting ||
      takes_from_queue(*caller, {frames.begin(), caller})) {
    return false;
  }
  return caller->callee.ends_with(".acquire") || waits_for_shared_lock(thread) ||
         std::any_of(frames.begin(), caller, is_acquire);
}

bool waits_for_shared_lock(const ThreadStack& thread) {
  const auto wait = find_wait(thread.frames, {.idle = true});
  return thread.lock.kind == "semaphore" && (!wait || (wait->kind == WaitKind::lock && wait->what == "lock"));
}

std::vector<const ThreadStack*> threads_in_acquire(const ProcessStacks& process) {
  std::vector<const ThreadStack*> out;
  for (const ThreadStack& t : process.threads) {
    if (acquires_lock(t)) {
      out.push_back(&t);
    }
  }
  return out;
}

bool writes_to_full_pipe(const ThreadStack& thread) {
  // A write to a pipe with room returns at once, so a thread that sleeps in the call has met a full pipe.
  return thread.state == 'S' && is_full(thread.syscall, thread.syscall_file, thread.peers);
}

bool is_full(std::string_view syscall, std::string_view file, const std::vector<base::Pid>& peers) {
  const bool writes = base::kind_of_name(syscall) == base::CallKind::send;
  // Of other sockets no peer is known: the network may be slow.
  return writes && (file.starts_with("pipe:") || (file.starts_with("socket:") && !peers.empty()));
}

std::string pool_name(const ThreadStack& thread) {
  return thread.python_name.substr(0, thread.python_name.rfind('_'));
}

std::vector<const ThreadStack*> pool_of_waiters(const ProcessStacks& process) {
  std::map<std::string, std::vector<const ThreadStack*>> pools;
  std::set<std::string> with_others;
  for (const ThreadStack& t : process.threads) {
    const bool pooled = std::any_of(t.frames.begin(), t.frames.end(), [](const Frame& f) {
      return f.file.ends_with("/concurrent/futures/thread.py") && last_component(f.func) == "_worker";
    });
    const bool for_result = std::any_of(t.frames.begin(), t.frames.end(), [](const Frame& f) {
      return f.file.ends_with("/concurrent/futures/_base.py") && last_component(f.func) == "result";
    });
    if (pooled && for_result) {
      pools[pool_name(t)].push_back(&t);
    } else if (pooled) {
      with_others.insert(pool_name(t));
    }
  }
  const auto full = std::find_if(pools.begin(), pools.end(),
                                 [&](const auto& pool) { return !with_others.contains(pool.first); });
  return full == pools.end() ? std::vector<const ThreadStack*>() : full->second;
}

namespace {

// Below these, a thread runs what it was given.
constexpr std::array<std::string_view, 6> kWorkLoops = {
    "/concurrent/futures/thread.py",     "/socketserver.py",      "/multiprocessing/pool.py",
    "distributed/threadpoolexecutor.py", "/gevent/threadpool.py", "/grpc/_server.py"};

bool takes_from_python_queue(const ThreadStack& thread) {
  const auto wait = find_wait(thread.frames, {.idle = true});
  return wait && wait->what == "queue" && !place_of(thread.frames).callee.ends_with(".put");
}

bool in_user_code(const ThreadStack& thread) {
  return !thread.main && owner_of(place_of(thread.frames).file) == CodeOwner::user &&
         !takes_from_python_queue(thread);
}

}  // namespace

const ThreadStack* thread_at_work(const ProcessStacks& process) {
  const auto works = [](const Frame& f) {
    return std::any_of(kWorkLoops.begin(), kWorkLoops.end(),
                       [&](std::string_view file) { return f.file.ends_with(file); });
  };
  const auto it = std::find_if(process.threads.begin(), process.threads.end(), [&](const ThreadStack& t) {
    return in_user_code(t) &&
           std::any_of(t.frames.begin() + static_cast<std::ptrdiff_t>(called_frames(t.frames)),
                       t.frames.end(), works);
  });
  return it == process.threads.end() ? nullptr : &*it;
}

const ThreadStack* thread_in_user_code(const ProcessStacks& process) {
  if (const ThreadStack* works = thread_at_work(process); works != nullptr) {
    return works;
  }
  const auto it = std::find_if(process.threads.begin(), process.threads.end(), in_user_code);
  return it == process.threads.end() ? nullptr : &*it;
}

bool lacks_task_done(const ProcessStacks& process, const ThreadStack& waiter) {
  const bool joins = std::any_of(waiter.frames.begin(), waiter.frames.end(), [](const Frame& f) {
    return f.file.ends_with("/queue.py") && last_component(f.func) == "join";
  });
  const auto idle = [&](base::Tid tid) {
    const auto t = std::find_if(process.threads.begin(), process.threads.end(),
                                [&](const ThreadStack& one) { return one.tid == tid; });
    return t != process.threads.end() && takes_from_python_queue(*t);
  };
  return joins && !waiter.sharers.empty() && std::all_of(waiter.sharers.begin(), waiter.sharers.end(), idle);
}

namespace {

bool is_of_import(const Frame& f) {
  return f.kind == FrameKind::python && f.file.starts_with("<frozen importlib.");
}

// The innermost module whose top level the thread runs because of an import; null: none.
const Frame* imported_module(const ThreadStack& thread) {
  const Frame* module = nullptr;
  for (const Frame& f : thread.frames) {
    if (module != nullptr && is_of_import(f)) {
      return module;
    }
    module = module == nullptr && f.kind == FrameKind::python && f.func == "<module>" ? &f : module;
  }
  return nullptr;
}

}  // namespace

Import awaited_import(const ProcessStacks& process, const ThreadStack& waiter) {
  const auto inner = std::find_if(waiter.frames.begin(), waiter.frames.end(),
                                  [](const Frame& f) { return f.kind == FrameKind::python; });
  if (inner == waiter.frames.end() || !is_of_import(*inner) ||
      (last_component(inner->func) != "acquire" && inner->func != "_lock_unlock_module")) {
    return {};
  }
  for (const ThreadStack& t : process.threads) {
    if (const Frame* module = &t == &waiter ? nullptr : imported_module(t)) {
      return {.thread = &t, .module = module};
    }
  }
  return {};
}

namespace {

// The waiting thread has the object that the other one knows: of a join, the thread itself.
bool knows_awaited(const ThreadStack& waiter, const ThreadStack& other) {
  return std::find(waiter.sharers.begin(), waiter.sharers.end(), other.tid) != waiter.sharers.end();
}

}  // namespace

const ThreadStack* locked_out_by(const ProcessStacks& process, const ThreadStack& waiter) {
  const ThreadStack* out = nullptr;
  for (const ThreadStack& t : process.threads) {
    const bool wants = &t != &waiter && t.lock.kind == "lock" && t.lock.tid == waiter.tid && acquires_lock(t);
    if (wants && (out == nullptr || knows_awaited(waiter, t))) {
      out = &t;
    }
  }
  return acquires_lock(waiter) ? nullptr : out;
}

bool is_deadlock(const ProcessStacks& process, const ThreadStack& waiter, const ThreadStack& locked_out) {
  const auto others =
      std::count_if(process.threads.begin(), process.threads.end(), [&](const ThreadStack& t) {
        return &t != &waiter && std::any_of(t.frames.begin(), t.frames.end(),
                                            [](const Frame& f) { return f.kind == FrameKind::python; });
      });
  return others == 1 || (knows_awaited(waiter, locked_out) && waiter.sharers.size() == 1);
}

std::vector<Frame> interrupted_frames(const ThreadStack& thread) {
  // The outermost: a handler may have interrupted itself.
  const auto outer = std::find_if(thread.frames.rbegin(), thread.frames.rend(), [](const Frame& f) {
    return f.kind == FrameKind::native && f.func.find("PyErr_CheckSignals") != std::string::npos;
  });
  const auto check = outer == thread.frames.rend() ? thread.frames.end() : std::prev(outer.base());
  const auto python = [](const Frame& f) { return f.kind == FrameKind::python; };
  return std::any_of(thread.frames.begin(), check, python) ? std::vector(check, thread.frames.end())
                                                           : std::vector<Frame>();
}

std::string thread_words(const ThreadStack& thread) {
  const std::string& name = thread.python_name.empty() ? thread.comm : thread.python_name;
  return name.empty() ? tr("thread {}", thread.tid) : tr("thread {} ({})", thread.tid, base::sanitize(name));
}

}  // namespace xpurun::report
