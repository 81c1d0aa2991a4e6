// Who holds the lock that a rank, or a process of the rank, waits for: another rank, a thread, or a thread
// that existed only in the parent at the fork. Pure.
#pragma once

#include "report/diagnosis/rule.h"

#include <string>

namespace xpurun::report {

// The rank that holds the file lock, or the lock of multiprocessing, that `v` waits for, itself or in one of
// its processes; null if no other rank does.
const RankView* lock_holder(const Scene& scene, const RankView& v);
// "the lock on dataset.lock", "the lock": what lock_holder() is about.
std::string held_words(const RankView& v);

// ": dataset.lock is held by pid 77 (sync.py)": the holder of the lock that the rank's thread waits for,
// where it is neither a rank nor unknown. Empty otherwise.
std::string holder_words(const Scene& scene, const RankView& v);

// ", for a lock that pid 77 holds in save (train.py:7)": a process that waits for a lock of multiprocessing.
// Empty for any other process, or if no process holds the lock.
std::string shared_lock_words(const Scene& scene, const model::ProcessStacks& process);

// ", forked while its parent had other threads: the one that holds the lock does not exist in it": a process
// that waits for what only such a thread can give. Empty for any other process.
std::string fork_words(const Scene& scene, const model::ProcessStacks& process);

// The cure for what holder_words() and fork_words() say about the rank or the helper that it waits for (may
// be null); empty if there is none.
std::string holder_advice(const Scene& scene, const RankView& v, const model::ProcessStacks* helper);

// For a loop that waits, the tasks beside the first: "; its task Task-3 waits in refresh_cache (train.py:12:
// Lock.acquire)". For a loop that is blocked, those that it has to run. Empty without an event loop.
std::string async_clause(const model::ProcessStacks& process, const model::ThreadStack& thread);

}  // namespace xpurun::report
