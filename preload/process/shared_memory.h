// Asks the supervisor for memory to share.
#pragma once

#include "common/wire/notice.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/un.h>

namespace xpurun::preload {

// The socket of a dead supervisor refuses at once. A live supervisor on a busy machine answers late, and a
// rank that gave up would never be timed.
inline constexpr uint64_t kAttachPatienceNs = 3'000'000'000;

// The mapping of the descriptor in the reply to the notice; nullptr if there is no supervisor, it refuses, or
// the memory does not have `bytes` bytes. The caller unmaps it.
void* request_memory(const sockaddr_un& socket, const wire::Notice& notice, size_t bytes,
                     uint64_t patience_ns = kAttachPatienceNs);

}  // namespace xpurun::preload
