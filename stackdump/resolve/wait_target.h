// What the system call of a waiting thread is about: the path or the peer, and who holds the lock. From /proc
// and the call's arguments in the memory of the process; no stop is needed.
#pragma once

#include "common/base/ids.h"
#include "stackdump/memory/proc_maps.h"
#include "stackdump/native/kernel_view.h"

#include <string>
#include <string_view>
#include <vector>

namespace xpurun::stackdump {

// Sets `target`, `file_system` and `lock` of the view.
void name_wait(base::Pid pid, RemoteMemory& memory, const ProcMaps& maps, KernelView& view);

// Of the lock in /proc/locks that `waiter` waits for: its kind ("flock", "fcntl") and holders. Empty if it
// waits for none.
model::LockHolder lock_holders(std::string_view locks, base::Pid waiter);

// The peer of the connection with this inode in the text of /proc/PID/net/tcp or tcp6: "10.0.0.7:443"; empty
// if the text has no such connection, or if it has no peer.
std::string tcp_peer(std::string_view table, std::string_view inode);

}  // namespace xpurun::stackdump
