// Where asyncio's C module keeps the tasks of a process, from CPython 3.14 on: lists of each thread and of
// the interpreter. The module describes them in its section .AsyncioDebug, as _PyRuntime does its own
// structures.
#pragma once

#include "stackdump/cpython/locate.h"
#include "stackdump/native/modules.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace xpurun::stackdump {

struct AsyncioOffsets {
  uint32_t task_awaited_by = 0;  // in a task: who awaits the task, a task or a set of tasks
  uint32_t task_node = 0;        // in a task: its node of the list
  uint32_t interp_tasks = 0;     // in the interpreter: head of the list of tasks whose thread has ended
  uint32_t thread_tasks = 0;     // in a thread state: head of the list of its tasks
};

// Empty if the process has not loaded the module, or if its file has no such section.
std::optional<AsyncioOffsets> read_asyncio_offsets(RemoteMemory& memory, const PythonRuntime& runtime,
                                                   ModuleList& modules);

// From the words of the section; empty if they are implausible. Public for tests.
inline constexpr size_t kAsyncioWords = 13;
std::optional<AsyncioOffsets> asyncio_offsets_of(const std::array<uint64_t, kAsyncioWords>& words);

}  // namespace xpurun::stackdump
