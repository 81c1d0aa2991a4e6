// Who has a file, a pipe or a socket open, from /proc/PID/fd. Follows no link to a file: a stat() on a
// stalled file system would block the caller.
#pragma once

#include "common/base/os/procfs.h"

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::base {

enum class OpenFor {
  anything,
  reading,  // perhaps among others
  writing,
};

// Whether the process has one of these files open. A file is named as in /proc/PID/fd: "pipe:[4711]".
bool has_open(const ProcFs& proc, Pid pid, const std::set<std::string>& files,
              OpenFor purpose = OpenFor::anything);

// The processes that have one of these files open, in order. Looks at the descriptors of all processes.
std::vector<Pid> with_open(const ProcFs& proc, const std::set<std::string>& files,
                           OpenFor purpose = OpenFor::anything);

// The processes that have the other end of a pipe or of a local socket open, in order; none if that cannot be
// seen. `purpose`: of the other end, where the file is a pipe. Looks at the descriptors of all processes.
std::vector<Pid> other_end(const ProcFs& proc, std::string_view file, OpenFor purpose);

// The local socket that is connected to this one: "socket:[4712]"; empty: none, or not known.
std::string peer_of_local_socket(std::string_view socket);

}  // namespace xpurun::base
