// What the system call of a waiting thread is about: the path or the peer, and who holds the lock. From /proc
// and the call's arguments in the memory of the process; no stop is needed.
#pragma once

#include "common/base/ids.h"
#include "common/base/os/system_call.h"
#include "stackdump/memory/proc_maps.h"
#include "stackdump/native/kernel_view.h"

#include <string>
#include <string_view>
#include <vector>

namespace xpurun::stackdump {

// Sets `target`, `file_system` and `lock` of the view. Of a frozen thread, `target` is the control group.
void name_wait(base::Pid pid, RemoteMemory& memory, const ProcMaps& maps, KernelView& view,
               const base::ProcFs& proc = base::ProcFs());

// Sets `peers`: who could end the wait of a thread that sleeps in a read or write of a pipe or a local
// socket. Looks at all processes, so that not each of many threads should ask.
enum class Wanted { readers, readers_and_writers };
void name_peers(KernelView& view, Wanted wanted, const base::ProcFs& proc = base::ProcFs());

// Of the lock in /proc/locks that `waiter` waits for: its kind ("flock", "fcntl") and holders. Empty if it
// waits for none.
model::LockHolder lock_holders(std::string_view locks, base::Pid waiter);

// The same of a lock on the file with this inode, whoever asks for it.
model::LockHolder lock_holders_of_inode(std::string_view locks, std::string_view inode);
// A call that asks for such a lock and does not wait.
bool asks_for_lock(const base::SystemCall& call);
// Who holds the lock on the file behind a descriptor of the process.
model::LockHolder lock_on_file(base::Pid pid, int fd);

// The control group that can be frozen, in the text of /proc/PID/cgroup.
std::string frozen_group(std::string_view cgroup);
// That of the first version, by the file that says so below the mount point of the freezer.
bool is_held_by_freezer(std::string_view cgroup, const std::string& freezer = "/sys/fs/cgroup/freezer");

// The bytes of a sockaddr for people: "10.0.0.7:443", "/run/worker.sock"; empty if unknown.
std::string address_words(const std::string& bytes);

// The peer of the connection with this inode in the text of /proc/PID/net/tcp or tcp6: "10.0.0.7:443"; empty
// if the text has no such connection, or if it has no peer.
std::string tcp_peer(std::string_view table, std::string_view inode);

}  // namespace xpurun::stackdump
