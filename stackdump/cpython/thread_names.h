// The names that a Python program gave its threads, from threading._active of each interpreter. Found once,
// read as often as wanted, also while the process runs: what is torn or gone is left out. Cost: about one
// small read for each imported module to find, some ten for each thread to read.
#pragma once

#include "stackdump/cpython/locate.h"

#include <string>
#include <unordered_map>
#include <vector>

namespace xpurun::stackdump {

// By PyThreadState.thread_id, that is pthread_self().
using ThreadNames = std::unordered_map<uint64_t, std::string>;

// The addresses of the threading._active dicts; an interpreter that never imported threading has none.
std::vector<Addr> find_thread_tables(RemoteMemory& memory, const PythonRuntime& runtime);

ThreadNames read_thread_names(RemoteMemory& memory, const Offsets& offsets, const std::vector<Addr>& tables);

}  // namespace xpurun::stackdump
