// Which threads know the object that another thread waits for: its event, condition, barrier, queue or
// future.
#pragma once

#include "stackdump/cpython/frames.h"

#include <cstdint>
#include <vector>

namespace xpurun::stackdump {

struct ObjectShare {
  uint64_t waiter = 0;  // PyThread::thread_id
  uint64_t sharer = 0;
};

// A thread knows an object by a local variable of one of its frames, by an attribute of such a variable, or
// by a global name that the code of one of its frames uses.
std::vector<ObjectShare> read_sharers(RemoteMemory& memory, const Offsets& offsets,
                                      const PySnapshot& snapshot, base::MonoNs deadline);
// Sets `sharers` of the threads.
void name_sharers(const std::vector<ObjectShare>& shares, std::vector<model::ThreadStack>& threads);

}  // namespace xpurun::stackdump
