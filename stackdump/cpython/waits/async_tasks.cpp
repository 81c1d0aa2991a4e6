#include "stackdump/cpython/waits/async_tasks.h"

#include "stackdump/cpython/dict.h"
#include "stackdump/cpython/object.h"
#include "stackdump/cpython/waits/asyncio_offsets.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

namespace xpurun::stackdump {

namespace {

constexpr size_t kMostInterpreters = 64;
constexpr size_t kMostThreads = 4096;
constexpr size_t kMostTasks = 256;
constexpr size_t kMostCoroutines = 64;     // of one task
constexpr size_t kMostTaskBytes = 512;     // of a task object, whose fields differ between versions
constexpr int64_t kMostEntries = 1 << 20;  // of the table of a set
constexpr size_t kHead = 16;               // PyObject_HEAD
constexpr size_t kSetMask = 32;
constexpr size_t kSetTable = 40;
constexpr size_t kSetEntry = 16;  // key, hash
constexpr size_t kMostName = 200;

// Where a generator or coroutine has its frame.
struct CoroutineLayout {
  size_t frame = 0;        // the frame, or (<= 3.10) a pointer to it
  size_t stack_depth = 0;  // int, in the frame; 0: `stack_top` instead
  size_t stack_base =
      0;                 // pointer to the value stack, in the frame; 0: the stack follows the local variables
  size_t stack_top = 0;  // pointer, in the frame
};

constexpr CoroutineLayout layout_of(int minor) {
  return minor <= 9    ? CoroutineLayout{.frame = 16, .stack_top = 72}
         : minor == 10 ? CoroutineLayout{.frame = 16, .stack_depth = 80, .stack_base = 64}
         : minor == 11 ? CoroutineLayout{.frame = 80, .stack_depth = 64}
         : minor <= 13 ? CoroutineLayout{.frame = 72, .stack_depth = 64}
                       : CoroutineLayout{.frame = 72, .stack_top = 64};
}

bool is_coroutine(const std::string& type) {
  return type == "coroutine" || type == "generator" || type == "async_generator";
}

bool is_task(const std::string& type) {
  return type == "Task" || type.ends_with(".Task");
}

bool is_future(const std::string& type) {
  return type.ends_with("Future") || is_task(type);
}

class Reader {
 public:
  Reader(RemoteMemory& memory, const PythonRuntime& runtime, const std::optional<AsyncioOffsets>& asyncio,
         PySnapshot& out, base::MonoNs deadline)
      : memory_(memory),
        runtime_(runtime),
        o_(runtime.offsets),
        asyncio_(asyncio),
        out_(out),
        deadline_(deadline) {}

  void read() {
    Addr interp = pointer(runtime_.address + o_.runtime_interpreters);
    for (size_t i = 0; interp != 0 && i < kMostInterpreters; ++i) {
      const Addr module = dict_value(memory_, pointer(interp + o_.interp_modules), "asyncio.tasks", o_);
      const Addr names = module == 0 ? 0 : pointer(module + o_.module_dict);
      for (const char* name : {"_all_tasks", "_scheduled_tasks", "_eager_tasks"}) {
        if (const Addr found = names == 0 ? 0 : dict_value(memory_, names, name, o_); found != 0) {
          read_set(found);
        }
      }
      if (asyncio_) {
        read_lists(interp);
      }
      interp = pointer(interp + o_.interp_next);
    }
  }

 private:
  Addr pointer(Addr a) { return memory_.value<uint64_t>(a).value_or(0); }

  std::string type_name(Addr object) {
    const auto type = object == 0 ? std::nullopt : type_of(memory_, object, o_);
    return type ? type->name : std::string();
  }

  // The lists of asyncio's own tasks, from 3.14 on. The sets above have the others then.
  void read_lists(Addr interp) {
    read_list(interp + asyncio_->interp_tasks);
    Addr thread = pointer(interp + o_.interp_threads);
    for (size_t i = 0; thread != 0 && i < kMostThreads && base::mono_ns() < deadline_; ++i) {
      read_list(thread + asyncio_->thread_tasks);
      thread = pointer(thread + o_.thread_next);
    }
  }

  // A circle of nodes, whose first word is the next node.
  void read_list(Addr head) {
    Addr node = pointer(head);
    while (node != 0 && node != head && out_.tasks.size() < kMostTasks && base::mono_ns() < deadline_) {
      const Addr task = node - asyncio_->task_node;
      if (!seen_.insert(task).second) {
        return;
      }
      read_task(task);
      node = pointer(node);
    }
  }

  // A WeakSet, whose `data` is a set of weak references, or a set.
  void read_set(Addr object) {
    const Addr data = attribute(memory_, object, "data", o_);
    const Addr set = data != 0 ? data : object;
    const int64_t entries = memory_.value<int64_t>(set + kSetMask).value_or(-1) + 1;
    const Addr table = pointer(set + kSetTable);
    if (table == 0 || entries <= 0 || entries > kMostEntries) {
      return;
    }
    for (int64_t i = 0; i < entries && out_.tasks.size() < kMostTasks && base::mono_ns() < deadline_; ++i) {
      const Addr key = pointer(table + static_cast<Addr>(i) * kSetEntry);
      if (key == 0) {
        continue;
      }
      const Addr task = data != 0 ? pointer(key + kHead) : key;  // wr_object
      if (task != 0 && seen_.insert(task).second) {
        read_task(task);
      }
    }
  }

  // The fields of a task are recognised by the types of their values: their places differ between versions.
  void read_task(Addr object) {
    const auto type = type_of(memory_, object, o_);
    if (!type || !is_task(type->name)) {
      return;
    }
    const auto size = memory_.value<int64_t>(type->address + o_.type_basicsize).value_or(0);
    const auto raw = memory_.bytes(object, std::clamp<size_t>(static_cast<size_t>(size), 0, kMostTaskBytes));
    if (!raw) {
      return;
    }
    RawTask task{.address = object};
    Addr coroutine = 0;
    std::string raised;
    const auto bytes = std::as_bytes(std::span(*raw));
    for (size_t at = kHead; at + sizeof(Addr) <= bytes.size(); at += sizeof(Addr)) {
      if (asyncio_ && at == asyncio_->task_awaited_by) {
        continue;
      }
      const Addr value = field<uint64_t>(bytes, at).value_or(0);
      // Numbers are no addresses.
      const auto of = value < 4096 || value % alignof(Addr) != 0 ? std::nullopt : type_of(memory_, value, o_);
      if (!of || value == object) {
        continue;
      }
      if (is_coroutine(of->name)) {
        coroutine = value;
      } else if ((of->flags & kException) != 0) {  // the task has ended
        raised = of->name;
      } else if (is_future(of->name)) {
        task.object = of->name;
        task.awaits = is_task(of->name) ? value : 0;
      } else if ((of->flags & kUnicode) != 0) {
        task.name = read_unicode(memory_, value, o_, kMostName).value_or(task.name);
      } else if (of->name == "int") {  // the number in a name that nobody has asked for, from 3.12 on
        const auto number = read_int(memory_, value, o_);
        task.name = number ? fmt::format("Task-{}", *number) : task.name;
      }
    }
    if (!raised.empty()) {
      task.object = "raised " + raised;  // the traceback keeps the frame of its end
      task.awaits = 0;
    }
    follow(coroutine, task);
    if (!task.frames.empty()) {
      std::reverse(task.frames.begin(), task.frames.end());
      out_.tasks.push_back(std::move(task));
    }
  }

  // The chain of coroutines, outermost first.
  void follow(Addr object, RawTask& task) {
    std::string type = type_name(object);
    for (size_t i = 0; i < kMostCoroutines && object != 0; ++i) {
      if (type == "coroutine_wrapper" || type == "async_generator_asend" ||
          type == "async_generator_athrow") {
        object = pointer(object + kHead);
      } else if (is_coroutine(type)) {
        object = enter(object, task);
      } else {
        return;
      }
      type = type_name(object);
    }
  }

  // From 3.11 on the frame is a part of the coroutine, which keeps the code after its end.
  bool has_ended(Addr coroutine, const CoroutineLayout& layout) {
    constexpr size_t kStateBefore = 5;  // bytes before the frame
    constexpr int kEnded = 1;           // completed or cleared
    constexpr int kCleared = 5;         // from 3.15 on
    const int state = memory_.value<int8_t>(coroutine + layout.frame - kStateBefore).value_or(0);
    return o_.minor >= 15 ? state == kCleared : o_.minor >= 11 && state >= kEnded;
  }

  // Adds the frame of a suspended coroutine; returns what it awaits, 0 if nothing.
  Addr enter(Addr coroutine, RawTask& task) {
    const CoroutineLayout layout = layout_of(o_.minor);
    if (!task.object.starts_with("raised ") && has_ended(coroutine, layout)) {
      return 0;
    }
    const Addr frame = o_.minor <= 10 ? pointer(coroutine + layout.frame) : coroutine + layout.frame;
    return add_frame(memory_, o_, frame, out_, task.frames) ? top_of_stack(frame, layout) : 0;
  }

  Addr top_of_stack(Addr frame, const CoroutineLayout& layout) {
    if (layout.stack_top != 0) {
      const Addr top = pointer(frame + layout.stack_top);
      return top == 0 ? 0 : awaited_at(top);
    }
    constexpr int32_t kDeepest = 1 << 16;
    const int32_t depth = memory_.value<int32_t>(frame + layout.stack_depth).value_or(0);
    const Addr base = layout.stack_base != 0 ? pointer(frame + layout.stack_base) : frame + o_.frame_locals;
    return depth <= 0 || depth > kDeepest ? 0 : pointer(base + static_cast<Addr>(depth - 1) * sizeof(Addr));
  }

  // What lies below the top of a value stack. From 3.15 on there may be the index of an iteration above the
  // awaited object.
  Addr awaited_at(Addr top) {
    constexpr size_t kDeep = 2;
    for (size_t i = 1; i <= (o_.minor >= 15 ? kDeep : 1); ++i) {
      const Addr word = pointer(top - i * sizeof(Addr));
      const Addr value = o_.frame_tagged ? word & ~kTagBits : word;
      if (value != 0 && type_of(memory_, value, o_)) {
        return value;
      }
    }
    return 0;
  }

  RemoteMemory& memory_;
  const PythonRuntime& runtime_;
  const Offsets& o_;
  const std::optional<AsyncioOffsets>& asyncio_;
  PySnapshot& out_;
  base::MonoNs deadline_;
  std::unordered_set<Addr> seen_;
};

}  // namespace

void read_tasks(RemoteMemory& memory, const PythonRuntime& runtime, ModuleList& modules, PySnapshot& snapshot,
                base::MonoNs deadline) {
  constexpr int kLastInSets = 13;
  constexpr int kLastKnown = 15;
  const int minor = runtime.offsets.minor;
  if (minor > kLastKnown || runtime.version.ends_with('t')) {
    return;
  }
  const auto asyncio = minor <= kLastInSets ? std::nullopt : read_asyncio_offsets(memory, runtime, modules);
  if (minor <= kLastInSets || asyncio) {
    Reader(memory, runtime, asyncio, snapshot, deadline).read();
  }
}

}  // namespace xpurun::stackdump
