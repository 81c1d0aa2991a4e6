// The key that a thread asks a store of torch for: the argument of store.get(), wait() or multi_get(), which
// lies on the value stack of the frame that makes the call. CPython 3.11 to 3.15.
#pragma once

#include "common/model/stack_snapshot.h"
#include "stackdump/cpython/frames.h"

#include <string>
#include <vector>

namespace xpurun::stackdump {

struct StoreKey {
  uint64_t waiter = 0;  // PyThread::thread_id
  std::string key;      // for people: "key lr/40"
};

// Of threads whose innermost frame calls a method of a store. The process may run meanwhile. Stops at
// `deadline`.
std::vector<StoreKey> read_store_keys(RemoteMemory& memory, const Offsets& offsets,
                                      const PySnapshot& snapshot, base::MonoNs deadline);

// Sets `target` of the waiting threads.
void name_store_keys(const std::vector<StoreKey>& keys, std::vector<model::ThreadStack>& threads);

}  // namespace xpurun::stackdump
