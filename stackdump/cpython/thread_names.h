// The thread names of a Python program, from threading._active of each interpreter. The dicts are found once
// and can be read many times, also while the process runs: torn or freed entries are left out. Cost: about
// one small read per imported module to find the dicts, about ten per thread to read the names.
#pragma once

#include "stackdump/cpython/locate.h"

#include <string>
#include <unordered_map>
#include <vector>

namespace xpurun::stackdump {

// By PyThreadState.thread_id, which is pthread_self().
using ThreadNames = std::unordered_map<uint64_t, std::string>;

// The addresses of the threading._active dicts. An interpreter that never imported threading has no such
// dict.
std::vector<Addr> find_thread_tables(RemoteMemory& memory, const PythonRuntime& runtime);

ThreadNames read_thread_names(RemoteMemory& memory, const Offsets& offsets, const std::vector<Addr>& tables);

}  // namespace xpurun::stackdump
