#include "stackdump/cpython/shared_locks.h"

#include "stackdump/cpython/dict.h"

#include <fmt/format.h>

#include <unordered_set>

namespace xpurun::stackdump {

namespace {

constexpr size_t kMostLocks = 4096;
constexpr size_t kObjectHead = 16;  // PyObject_HEAD; wr_object of a weak reference follows

// SemLockObject after its head, equal in CPython 3.8 to 3.13.
struct SemLock {
  uint64_t handle = 0;  // sem_t*
  uint64_t last_tid = 0;
  int32_t count = 0;
  int32_t most = 0;
};

// Objects that may be locks of multiprocessing.
std::vector<Addr> candidates(RemoteMemory& memory, Addr modules, const Offsets& o) {
  const auto pointer = [&memory](Addr a) { return memory.value<uint64_t>(a).value_or(0); };
  const auto variable = [&](std::string_view module, std::string_view name) {
    const Addr found = dict_value(memory, modules, module, o);
    return found == 0 ? 0 : dict_value(memory, pointer(found + o.module_dict), name, o);
  };
  std::vector<Addr> out;
  if (const Addr known = variable("multiprocessing.util", "_afterfork_registry"); known != 0) {
    for (const DictItem& item : read_dict(memory, attribute(memory, known, "data", o), o, kMostLocks)) {
      out.push_back(pointer(item.value + kObjectHead));
    }
  }
  if (const Addr process = variable("multiprocessing.process", "_current_process"); process != 0) {
    const auto arguments = read_tuple(memory, attribute(memory, process, "_args", o), o, kMostLocks);
    out.insert(out.end(), arguments.begin(), arguments.end());
  }
  return out;
}

}  // namespace

std::string shared_semaphore(const ProcMaps& maps, Addr address) {
  const Mapping* const m = maps.find(address);
  return m != nullptr && m->path.starts_with("/dev/shm/sem.") ? fmt::format("{}#{}", m->path, m->inode)
                                                              : std::string();
}

std::vector<model::SharedLock> read_held_locks(RemoteMemory& memory, const PythonRuntime& runtime,
                                             const ProcMaps& maps, base::MonoNs deadline) {
  const Offsets& o = runtime.offsets;
  std::vector<model::SharedLock> out;
  std::unordered_set<Addr> seen;
  const Addr interp = memory.value<uint64_t>(runtime.address + o.runtime_interpreters).value_or(0);
  const Addr modules = interp == 0 ? 0 : memory.value<uint64_t>(interp + o.interp_modules).value_or(0);
  for (const Addr object : candidates(memory, modules, o)) {
    const Addr found = object == 0 ? 0 : attribute(memory, object, "_semlock", o);
    if (base::mono_ns() > deadline) {
      break;
    }
    if (found == 0 || !seen.insert(found).second) {
      continue;
    }
    const auto lock = memory.value<SemLock>(found + kObjectHead);
    // A semaphore that counts further has no owner.
    std::string name =
        lock && lock->count > 0 && lock->most == 1 ? shared_semaphore(maps, lock->handle) : std::string();
    if (!name.empty()) {
      out.push_back({.path = std::move(name), .thread_id = lock->last_tid});
    }
  }
  return out;
}

}  // namespace xpurun::stackdump
