// KernelWait: the system call that a thread sleeps in, and the process or event that the thread waits
// for. Read from /proc and, for poll() and select(), from the process's memory. Stops no process and follows
// no link to a file: a stat() on a stalled file system would block the supervisor.
#pragma once

#include "common/base/os/procfs.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace xpurun::launcher {

enum class KernelWaitKind {
  none,       // the thread runs, or nothing could be read
  restarted,  // continues an interrupted call, whose number is unknown
  child,      // wait4(), waitid()
  lock,       // futex(), semop()
  pipes,      // read, poll or select with at least one pipe among the descriptors
  output,     // write to a pipe
  input,      // read of descriptor 0
  accept,
  events,  // epoll
  sleep,
  signal,
  other,  // a socket, a file, anything else
};

struct KernelWait {
  KernelWaitKind kind = KernelWaitKind::none;
  // read(), recv(), write(), send(): the thread wakes only to move data, or at the end of the file.
  bool transfers = false;
  base::Pid child = 0;            // child: the pid that the thread waits for; 0: any
  std::set<std::string> pipes;    // pipes, output, input: "pipe:[123]", as in /proc/PID/fd
  std::set<std::string> sockets;  // of poll, select and epoll: "socket:[123]"
  bool endless = false;           // epoll: without a time limit
  bool own = false;               // epoll: for counters and timers of the process, and for one socket at most
};

KernelWait kernel_wait(const base::ProcFs& proc, base::Pid pid);

// TransferWatch: whether a thread gets data through calls that wait for them. A sample between two such calls
// may meet the thread without a CPU, or waiting for Python's lock, and then says nothing. Pure.
class TransferWatch {
 public:
  // One sample: where the thread waits, and its voluntary switches so far. True if the thread waits in such a
  // call, and has left one since an earlier sample met it there.
  bool add(const KernelWait& wait, uint64_t switches) {
    const bool out = wait.transfers && from_ && switches > *from_;
    from_ = wait.transfers ? std::optional(switches) : from_;
    return out;
  }
  // What the samples before have met says nothing about those that follow.
  void forget() { from_.reset(); }

 private:
  std::optional<uint64_t> from_;  // switches at the last sample in such a call
};

// The socket is one end of a pair of which the process has the other end too, as the loop of asyncio has to
// wake itself up.
bool wakes_itself(const base::ProcFs& proc, base::Pid pid, const std::string& socket);

// Whether one of these sockets takes connections. Reads the tables of all sockets of the process's network.
bool listens(const base::ProcFs& proc, base::Pid pid, const std::set<std::string>& sockets);
// The same of one table, /proc/PID/net/tcp, tcp6 or unix. Public for tests.
bool listens_in(std::string_view table, const std::set<std::string>& sockets);

// The sockets of one table, /proc/PID/net/tcp or tcp6, that take connections at this port. Public for tests.
std::set<std::string> listening_at(std::string_view table, int port);
// The process that takes connections at this port in the network of `pid`; 0: none that can be seen. Reads
// the descriptors of all processes.
base::Pid listener_of(const base::ProcFs& proc, base::Pid pid, int port);

}  // namespace xpurun::launcher
