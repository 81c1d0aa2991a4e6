#include "stackdump/cpython/waits/asyncio_offsets.h"

#include "common/base/strings.h"

#include <set>
#include <string>

namespace xpurun::stackdump {

namespace {

// Positions in the section, in words (Modules/_asynciomodule.c, _Py_AsyncioModuleDebugOffsets).
enum Word : size_t {
  task_size,
  task_name,
  task_awaited_by,
  task_is_task,
  task_awaited_by_is_set,
  task_coro,
  task_node,
  interp_size,
  interp_tasks_head,
  thread_size,
  thread_running_loop,
  thread_running_task,
  thread_tasks_head,
  end_of_words,
};
static_assert(end_of_words == kAsyncioWords);

constexpr uint64_t kMostTask = 1024;
constexpr uint64_t kMostThread = 1 << 14;
constexpr uint64_t kMostInterp = 1 << 22;

}  // namespace

std::optional<AsyncioOffsets> asyncio_offsets_of(const std::array<uint64_t, kAsyncioWords>& words) {
  const bool sizes =
      words[task_size] <= kMostTask && words[interp_size] <= kMostInterp && words[thread_size] <= kMostThread;
  const bool inside = words[task_awaited_by] < words[task_size] && words[task_node] < words[task_size] &&
                      words[interp_tasks_head] < words[interp_size] &&
                      words[thread_tasks_head] < words[thread_size];
  if (!sizes || !inside) {
    return std::nullopt;
  }
  return AsyncioOffsets{.task_awaited_by = static_cast<uint32_t>(words[task_awaited_by]),
                        .task_node = static_cast<uint32_t>(words[task_node]),
                        .interp_tasks = static_cast<uint32_t>(words[interp_tasks_head]),
                        .thread_tasks = static_cast<uint32_t>(words[thread_tasks_head])};
}

std::optional<AsyncioOffsets> read_asyncio_offsets(RemoteMemory& memory, const PythonRuntime& runtime,
                                                   ModuleList& modules) {
  std::set<std::string> seen;
  for (const Mapping& m : modules.maps().all()) {
    // The module is a file of its own, or a part of the interpreter.
    const bool may_have =
        m.is_file() && (base::base_name(m.path).starts_with("_asyncio.") || m.path == runtime.path);
    if (!may_have || !seen.insert(m.path).second) {
      continue;
    }
    const Module* module = modules.find(m.lo);
    const auto section = module == nullptr || module->image == nullptr
                             ? std::nullopt
                             : module->image->section(".AsyncioDebug");
    const auto words =
        section ? memory.value<std::array<uint64_t, kAsyncioWords>>(module->bias + section->sh_addr)
                : std::nullopt;
    if (const auto found = words ? asyncio_offsets_of(*words) : std::nullopt) {
      return found;
    }
  }
  return std::nullopt;
}

}  // namespace xpurun::stackdump
