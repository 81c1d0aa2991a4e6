// What a path lies on, from the text of /proc/PID/mountinfo. Pure: no function follows the path,
// because a look at a stalled file system may never return.
#pragma once

#include "common/model/stack_snapshot.h"

#include <string>
#include <string_view>

namespace xpurun::model {

// The file system that an absolute path lies on: the last one that is mounted at the longest prefix. Empty if
// the text has none.
FileSystem file_system_of(std::string_view mountinfo, std::string_view path);

// Another program or host answers the requests, so that a call may wait for an answer in any state.
bool is_served(const FileSystem& fs);
// In memory or made by the kernel: no disk and no server can be full or slow.
bool is_virtual(const FileSystem& fs);

// "/data (nfs4 10.0.0.7:/ds)"; a source that says no more than the type is left out.
std::string file_system_words(const FileSystem& fs);

// The requests to the server of the NFS file system at this mount point that have no answer, from the text of
// /proc/PID/mountstats; negative: unknown.
int unanswered_requests(std::string_view mountstats, std::string_view mount);

}  // namespace xpurun::model
