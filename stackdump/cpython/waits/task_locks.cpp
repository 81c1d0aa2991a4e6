#include "stackdump/cpython/waits/task_locks.h"

#include "stackdump/cpython/dict.h"
#include "stackdump/cpython/object.h"

#include <algorithm>
#include <map>

namespace xpurun::stackdump {

namespace {

constexpr Addr kExceptionTable = 40;  // bytes, in a code object
constexpr size_t kMostTable = 1 << 16;
constexpr size_t kDeepest = 256;
constexpr Addr kMethodFunction = 16;  // of a method
constexpr Addr kDefinition = 16;      // PyMethodDef of a function in C
constexpr Addr kFunctionName = 32;    // of a function of Python
constexpr size_t kLongestExit = 64;

// A number of co_exceptiontable: six bits a byte, the first ones first; bit 6: more follow.
size_t take_number(std::string_view table, size_t& at) {
  size_t out = 0;
  for (bool more = true; more && at < table.size(); ++at) {
    const auto byte = static_cast<unsigned char>(table[at]);
    out = out << 6 | (byte & 63U);
    more = (byte & 64U) != 0;
  }
  return out;
}

class LockReader {
 public:
  LockReader(RemoteMemory& memory, const Offsets& offsets, const PySnapshot& snapshot)
      : memory_(memory), o_(offsets), snapshot_(snapshot) {}

  // The lock that a task acquires; 0: none.
  Addr wanted(const RawTask& task) {
    if (task.lock != 0 || task.frames.empty()) {
      return task.lock;
    }
    const RawFrame& inner = task.frames.front();
    const std::string& name = snapshot_.code.at(inner.code).name;
    return name.ends_with(".acquire") ? pointer(inner.address + o_.frame_locals) : 0;  // self
  }

  // The objects whose `with` blocks the task is in, with repetitions.
  std::vector<Addr> entered(const RawTask& task) {
    std::vector<Addr> out;
    for (const RawFrame& frame : task.frames) {
      const CodeObject& code = snapshot_.code.at(frame.code);
      const auto table =
          read_bytes_object(memory_, pointer(frame.code + kExceptionTable), o_, kMostTable).value_or("");
      const size_t depth = std::min(kept_depth(table, instruction_index(frame, code, o_)), kDeepest);
      const Addr kinds = pointer(frame.code + o_.code_local_kinds);
      const auto locals = memory_.value<uint64_t>(kinds + o_.bytes_size).value_or(0);
      for (size_t i = 0; i < depth; ++i) {
        const Addr value = pointer(frame.address + o_.frame_locals + (locals + i) * sizeof(Addr));
        if (const Addr object = value == 0 ? 0 : object_of_exit(value); object != 0) {
          out.push_back(object);
        }
      }
    }
    return out;
  }

 private:
  Addr pointer(Addr a) { return memory_.value<uint64_t>(a).value_or(0); }

  // The object of a bound __exit__ or __aexit__; 0 for anything else.
  Addr object_of_exit(Addr value) {
    const auto type = type_of(memory_, value, o_);
    const std::string name =
        !type ? std::string() : name_of(type->name == "method" ? pointer(value + kMethodFunction) : value);
    return name == "__exit__" || name == "__aexit__" ? pointer(value + kMethodSelf) : 0;
  }

  // Of a function of Python, C or Cython.
  std::string name_of(Addr function) {
    const auto type = function == 0 ? std::nullopt : type_of(memory_, function, o_);
    if (type && type->name == "function") {
      return read_unicode(memory_, pointer(function + kFunctionName), o_, kLongestExit).value_or("");
    }
    const bool native = type && type->name.ends_with("function_or_method");
    return native ? memory_.c_string(pointer(pointer(function + kDefinition)), kLongestExit).value_or("")
                  : "";
  }

  RemoteMemory& memory_;
  const Offsets& o_;
  const PySnapshot& snapshot_;
};

}  // namespace

size_t kept_depth(std::string_view table, int64_t index) {
  for (size_t at = 0; at < table.size();) {
    const auto start = static_cast<int64_t>(take_number(table, at));
    const auto length = static_cast<int64_t>(take_number(table, at));
    (void)take_number(table, at);  // where the handler is
    const size_t depth = take_number(table, at) >> 1;
    if (index >= start && index < start + length) {
      return depth;
    }
  }
  return 0;
}

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
    for (const Addr object : reader.entered(task)) {
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

}  // namespace xpurun::stackdump
