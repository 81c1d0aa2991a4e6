// Waits for a file system: which call, which file, and what the file lies on.
#pragma once

#include "report/diagnosis/rule.h"

#include <string>

namespace xpurun::report {

// The thread waits for a disk or for the server of a file system. A wait for the other end of a FIFO, for a
// lock or in memory is none.
bool waits_for_storage(const model::ThreadStack& thread);

// "; read() of /data/x waits for the file system /data (nfs4 10.0.0.7:/ds)", of the rank, of the process that
// it waits for or, while it waits for its own threads, of one of these. Empty if none waits for storage.
std::string storage_clause(const Scene& scene, const RankView& v);

// What to do about the file system; empty as storage_clause().
model::NextStep storage_advice(const Scene& scene, const RankView& v);

}  // namespace xpurun::report
