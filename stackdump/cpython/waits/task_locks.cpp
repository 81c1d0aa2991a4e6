#include "stackdump/cpython/waits/task_locks.h"

#include "stackdump/cpython/dict.h"
#include "stackdump/cpython/object.h"
#include "stackdump/cpython/value_stack.h"

#include <algorithm>
#include <map>
#include <set>

namespace xpurun::stackdump {

namespace {

constexpr Addr kMethodFunction = 16;  // of a method
constexpr Addr kDefinition = 16;      // PyMethodDef of a function in C
constexpr Addr kFunctionName = 32;    // of a function of Python
constexpr Addr kDescriptorName = 24;  // of a method of a type in C
constexpr size_t kLongestExit = 64;

class LockReader {
 public:
  LockReader(RemoteMemory& memory, const Offsets& offsets, const PySnapshot& snapshot)
      : memory_(memory), o_(offsets), snapshot_(snapshot), stack_(memory, offsets, snapshot) {}

  // The lock that a task acquires; 0: none.
  Addr wanted(const RawTask& task) {
    if (task.lock != 0 || task.frames.empty()) {
      return task.lock;
    }
    const RawFrame& inner = task.frames.front();
    const std::string& name = snapshot_.code.at(inner.code).name;
    return name.ends_with(".acquire") ? pointer(inner.address + o_.frame_locals) : 0;  // self
  }

  // The objects whose `with` blocks these frames are in, with repetitions.
  std::vector<Addr> entered(const std::vector<RawFrame>& frames) {
    std::vector<Addr> out;
    for (const RawFrame& frame : frames) {
      const ValueStack::Slots slots = stack_.kept(frame);
      for (size_t i = 0; i < slots.depth; ++i) {
        if (const Addr object = object_of_exit(frame, slots.first + i); object != 0) {
          out.push_back(object);
        }
      }
    }
    return out;
  }

  // A lock of threading.
  bool is_lock(Addr object) {
    const auto type = type_of(memory_, object, o_);
    return type && (type->name == "_thread.lock" || type->name == "_thread.RLock");
  }

  // The lock that the innermost frame of a thread is about to take, in `with` or by acquire(): the first one
  // that lies above what the handlers of the frame keep; 0: none.
  Addr about_to_take(const RawFrame& frame) {
    constexpr size_t kOfCall = 6;  // what the call itself has pushed
    const ValueStack::Slots slots = stack_.kept(frame);
    for (size_t i = slots.depth; slots.known && i < slots.depth + kOfCall; ++i) {
      const Addr value = stack_.reference(frame, slots.first + i);
      const Addr exit = object_of_exit(frame, slots.first + i);  // 3.11 has replaced the lock by its __exit__
      for (const Addr object : {value, exit}) {
        if (object != 0 && object % alignof(Addr) == 0 && is_lock(object)) {
          return object;
        }
      }
    }
    return 0;
  }

 private:
  Addr pointer(Addr a) { return memory_.value<uint64_t>(a).value_or(0); }

  // The object of __exit__ or __aexit__ in this slot, which is bound to it, or (from 3.14 on) lies in the
  // slot above; 0 for anything else.
  Addr object_of_exit(const RawFrame& frame, uint64_t slot) {
    const Addr value = stack_.reference(frame, slot);
    const auto type = value == 0 ? std::nullopt : type_of(memory_, value, o_);
    if (!type) {
      return 0;
    }
    const bool method = type->name == "method";
    const std::string name = name_of(method ? pointer(value + kMethodFunction) : value);
    if (name != "__exit__" && name != "__aexit__") {
      return 0;
    }
    const bool bound = method || type->name == "builtin_function_or_method" || o_.minor <= 13;
    return bound ? pointer(value + kMethodSelf) : stack_.reference(frame, slot + 1);
  }

  // Of a function of Python, C or Cython.
  std::string name_of(Addr function) {
    const auto type = function == 0 ? std::nullopt : type_of(memory_, function, o_);
    if (type && type->name == "function") {
      return read_unicode(memory_, pointer(function + kFunctionName), o_, kLongestExit).value_or("");
    }
    if (type && type->name == "method_descriptor") {
      return read_unicode(memory_, pointer(function + kDescriptorName), o_, kLongestExit).value_or("");
    }
    const bool native = type && type->name.ends_with("function_or_method");
    return native ? memory_.c_string(pointer(pointer(function + kDefinition)), kLongestExit).value_or("")
                  : "";
  }

  RemoteMemory& memory_;
  const Offsets& o_;
  const PySnapshot& snapshot_;
  ValueStack stack_;
};

}  // namespace

void read_task_locks(RemoteMemory& memory, const Offsets& offsets, PySnapshot& snapshot,
                     base::MonoNs deadline) {
  if (offsets.minor < 11) {
    return;
  }
  LockReader reader(memory, offsets, snapshot);
  std::multimap<Addr, Addr> wanted;  // tasks by lock
  for (const RawTask& task : snapshot.tasks) {
    if (const Addr lock = reader.wanted(task); lock != 0) {
      wanted.emplace(lock, task.address);
    }
  }
  std::multimap<Addr, Addr> held;
  for (const RawTask& task : snapshot.tasks) {
    if (wanted.empty() || base::mono_ns() > deadline) {
      return;
    }
    std::map<Addr, int> entered;
    for (const Addr object : reader.entered(task.frames)) {
      ++entered[object];
    }
    for (const auto& [object, times] : entered) {
      // A task that is about to enter has its __aexit__ already.
      const auto [begin, end] = wanted.equal_range(object);
      const bool waits =
          std::any_of(begin, end, [&](const auto& entry) { return entry.second == task.address; });
      if (times > (waits && task.object != "greenlet" ? 1 : 0)) {
        held.emplace(object, task.address);
      }
    }
  }
  for (RawTask& task : snapshot.tasks) {
    const Addr lock = reader.wanted(task);
    if (lock != 0 && held.count(lock) == 1) {
      task.awaits = held.find(lock)->second;
      task.object = "lock";
    }
  }
}

namespace {

std::vector<RawFrame> frames_of(const PyThread& thread) {
  std::vector<RawFrame> out;
  for (const FrameGroup& group : thread.groups) {
    out.insert(out.end(), group.frames.begin(), group.frames.end());
  }
  return out;
}

// The frames whose locks the thread holds: Condition.wait() gives back, until it returns, what its caller has
// taken.
std::vector<RawFrame> holding_frames(const PySnapshot& snapshot, const std::vector<RawFrame>& frames) {
  const auto is = [&](const RawFrame& f, std::string_view name) {
    const auto code = snapshot.code.find(f.code);
    return code != snapshot.code.end() && code->second.name == name;
  };
  auto first =
      std::find_if(frames.begin(), frames.end(), [&](const RawFrame& f) { return is(f, "Condition.wait"); });
  if (first == frames.end()) {
    return frames;
  }
  ++first;
  first += first != frames.end() && is(*first, "Condition.wait_for") ? 1 : 0;
  first += first != frames.end() ? 1 : 0;
  return {first, frames.end()};
}

}  // namespace

std::vector<ThreadLock> read_thread_locks(RemoteMemory& memory, const Offsets& offsets,
                                          const PySnapshot& snapshot, base::MonoNs deadline) {
  std::vector<ThreadLock> out;
  if (offsets.minor < 11) {
    return out;
  }
  LockReader reader(memory, offsets, snapshot);
  std::multimap<Addr, uint64_t> held;  // threads by lock
  std::map<uint64_t, Addr> wanted;     // locks by thread
  for (const PyThread& thread : snapshot.threads) {
    const std::vector<RawFrame> frames = frames_of(thread);
    if (frames.empty() || base::mono_ns() > deadline) {
      continue;
    }
    const std::vector<Addr> entered = reader.entered(holding_frames(snapshot, frames));
    for (const Addr object : std::set<Addr>(entered.begin(), entered.end())) {
      if (reader.is_lock(object)) {
        held.emplace(object, thread.thread_id);
      }
    }
    if (const Addr lock = reader.about_to_take(frames.front()); lock != 0) {
      wanted[thread.thread_id] = lock;
      const std::vector<Addr> outside = reader.entered({frames.begin() + 1, frames.end()});
      if (std::find(outside.begin(), outside.end(), lock) != outside.end()) {
        out.push_back({.waiter = thread.thread_id, .holder = thread.thread_id});
      }
    }
  }
  for (const auto& [waiter, lock] : wanted) {
    if (const auto holder = held.find(lock); held.count(lock) == 1 && holder->second != waiter) {
      out.push_back({.waiter = waiter, .holder = holder->second});
    }
  }
  return out;
}

void name_lock_holders(const std::vector<ThreadLock>& locks, std::vector<model::ThreadStack>& threads) {
  const auto thread_of = [&threads](uint64_t id) {
    return std::find_if(threads.begin(), threads.end(),
                        [id](const model::ThreadStack& t) { return t.thread_id == id; });
  };
  for (const ThreadLock& lock : locks) {
    const auto waiter = thread_of(lock.waiter);
    const auto holder = thread_of(lock.holder);
    // What the futex of the lock looks like says less.
    if (waiter != threads.end() && holder != threads.end() && waiter->lock.pids.empty()) {
      waiter->lock = {.kind = "lock", .path = {}, .pids = {}, .tid = holder->tid};
    }
  }
}

}  // namespace xpurun::stackdump
