#include "report/diagnosis/waits/async_waits.h"

#include "report/diagnosis/waits/code_place.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>

namespace xpurun::report {

using model::AsyncTask;
using model::Frame;
using model::ThreadStack;

namespace {

bool in_loop(const Frame& f) {
  return f.kind == model::FrameKind::python &&
         (f.file.ends_with("/asyncio/base_events.py") || f.file.ends_with("/asyncio/runners.py") ||
          f.file.ends_with("/gevent/hub.py") || f.file.find("/eventlet/hubs/") != std::string::npos);
}

bool runs_loop(const ThreadStack& thread) {
  return std::any_of(thread.frames.begin(), thread.frames.end(), in_loop);
}

const Frame* innermost_python(const ThreadStack& thread) {
  const auto it = std::find_if(thread.frames.begin(), thread.frames.end(),
                               [](const Frame& f) { return f.kind == model::FrameKind::python; });
  return it == thread.frames.end() ? nullptr : &*it;
}

// A task that waits for several others has a future of its own.
bool gathers(const AsyncTask& task) {
  return task.object.find("Gathering") != std::string::npos;
}

const AsyncTask* awaited_task(const model::ProcessStacks& process, const AsyncTask& task) {
  const auto it = std::find_if(process.tasks.begin(), process.tasks.end(),
                               [&](const AsyncTask& t) { return t.id == task.awaits; });
  return it == process.tasks.end() ? nullptr : &*it;
}

// The task waits, through others, for its own end.
bool in_circle(const model::ProcessStacks& process, const AsyncTask& task) {
  const AsyncTask* next = awaited_task(process, task);
  for (size_t i = 0; next != nullptr && next != &task && i < process.tasks.size(); ++i) {
    next = waits_for_task_lock(*next) ? nullptr : awaited_task(process, *next);
  }
  return next == &task && !waits_for_task_lock(task);
}

}  // namespace

const AsyncTask* awaited_in_circle(const model::ProcessStacks& process, const AsyncTask& task) {
  return in_circle(process, task) ? awaited_task(process, task) : nullptr;
}

bool in_lock_circle(const model::ProcessStacks& process, const AsyncTask& task) {
  const AsyncTask* next = &task;
  for (size_t i = 0; next != nullptr && i <= process.tasks.size(); ++i) {
    next = waits_for_task_lock(*next) ? awaited_task(process, *next) : nullptr;
    if (next == &task) {
      return true;
    }
  }
  return false;
}

model::CodeLocation place_of(const AsyncTask& task) {
  model::CodeLocation out = place_of(task.frames);
  const bool inside = !task.frames.empty() && task.frames.front().line > 0 &&
                      (task.frames.front().func != out.function || task.frames.front().file != out.file);
  out.callee = inside ? task.frames.front().func : out.callee;
  return out;
}

bool loop_waits(const ThreadStack& thread) {
  const Frame* inner = innermost_python(thread);
  // uvloop and its like wait in C, below run().
  return inner != nullptr && runs_loop(thread) && (inner->file.ends_with("/selectors.py") || in_loop(*inner));
}

bool blocks_loop(const ThreadStack& thread) {
  return runs_loop(thread) && !loop_waits(thread);
}

bool serves_requests(const ThreadStack& thread) {
  const auto user = std::find_if(thread.frames.begin(), thread.frames.end(), [](const Frame& f) {
    return f.kind == model::FrameKind::python && owner_of(f.file) == CodeOwner::user;
  });
  return std::any_of(thread.frames.begin(), user, [](const Frame& f) {
    const std::string_view name = last_component(f.func);
    return (f.file.ends_with("/socketserver.py") && name == "serve_forever") ||
           (f.file.ends_with("/grpc/_server.py") && name == "wait_for_termination");
  });
}

bool stops_own_server(const ThreadStack& thread) {
  const auto find = [&](auto from, std::string_view method) {
    return std::find_if(from, thread.frames.end(), [&](const Frame& f) {
      return f.file.ends_with("/socketserver.py") && last_component(f.func) == method;
    });
  };
  const auto stops = find(thread.frames.begin(), "shutdown");
  return stops != thread.frames.end() && find(stops, "serve_forever") != thread.frames.end();
}

std::string exception_of(const AsyncTask& task) {
  constexpr std::string_view kRaised = "raised ";
  return task.object.starts_with(kRaised) ? task.object.substr(kRaised.size()) : std::string();
}

const AsyncTask* failed_task(const model::ProcessStacks& process) {
  const auto failed = std::find_if(process.tasks.begin(), process.tasks.end(), [](const AsyncTask& t) {
    const std::string raised = exception_of(t);
    return !raised.empty() && !raised.ends_with("CancelledError") && !t.frames.empty();
  });
  return failed == process.tasks.end() ? nullptr : &*failed;
}

bool waits_for_task_lock(const AsyncTask& task) {
  return task.object == "lock";
}

std::vector<const AsyncTask*> last_tasks(const model::ProcessStacks& process) {
  std::vector<const AsyncTask*> out;
  std::vector<const AsyncTask*> gathering;
  for (const AsyncTask& task : process.tasks) {
    const bool of_another =
        !waits_for_task_lock(task) && awaited_task(process, task) != nullptr && !in_circle(process, task);
    if (!of_another && exception_of(task).empty()) {
      (gathers(task) ? gathering : out).push_back(&task);
    }
  }
  if (out.empty()) {
    out = std::move(gathering);  // what threads do
  }
  // The set of tasks has no order. The greenlet of the program itself waits for the others.
  const auto key = [&](const AsyncTask* t) {
    const bool holds = std::any_of(process.tasks.begin(), process.tasks.end(), [&](const AsyncTask& other) {
      return waits_for_task_lock(other) && other.awaits == t->id;
    });
    const int order = holds || in_circle(process, *t) ? 0 : waits_for_task_lock(*t) ? 2 : 1;
    return std::tuple(t->frames.back().func == "<module>", order, t->name.size(), t->name);
  };
  std::sort(out.begin(), out.end(), [&](const AsyncTask* a, const AsyncTask* b) { return key(a) < key(b); });
  return out;
}

namespace {

bool sleeps(const AsyncTask& task) {
  const Frame& inner = task.frames.front();
  return last_component(inner.func) == "sleep" &&
         (inner.file.ends_with("/asyncio/tasks.py") || inner.file.find("/gevent/") != std::string::npos ||
          inner.file.find("/eventlet/") != std::string::npos);
}

// A greenlet that waits for the end of others, as that of the program itself does if nothing else is known.
bool joins(const AsyncTask& task) {
  constexpr std::array<std::string_view, 5> kJoins = {"joinall", "join", "waitall", "wait_on_objects", "get"};
  const std::string_view called = last_component(task.frames.front().callee);
  const bool known = std::find(kJoins.begin(), kJoins.end(), called) != kJoins.end();
  return task.object == "greenlet" && (known || (called.empty() && task.frames.back().func == "<module>"));
}

}  // namespace

bool only_checks(const model::ProcessStacks& process) {
  const auto tasks = last_tasks(process);
  return std::any_of(tasks.begin(), tasks.end(), [](const auto* t) { return sleeps(*t); }) &&
         std::all_of(tasks.begin(), tasks.end(), [](const auto* t) { return sleeps(*t) || joins(*t); });
}

}  // namespace xpurun::report
