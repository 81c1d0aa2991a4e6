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

// The process waits for what only a thread of its parent could give, which the fork has not copied.
bool waits_in_vain(const Scene& scene, const model::ProcessStacks& process);
// ", forked while its parent had other threads: the one that holds the lock does not exist in it": a process
// that waits in vain. Empty for any other process.
std::string fork_words(const Scene& scene, const model::ProcessStacks& process);

// The cure for what holder_words() and fork_words() say about the rank or the helper that it waits for (may
// be null); empty if there is none.
std::string holder_advice(const Scene& scene, const RankView& v, const model::ProcessStacks* helper);

// For a loop that waits, the tasks beside the first: "; its task Task-3 waits in refresh_cache (train.py:12:
// Lock.acquire)". For a loop that is blocked, those that it has to run. Empty without an event loop.
std::string async_clause(const model::ProcessStacks& process, const model::ThreadStack& thread);

// program_waits.cpp: what the system call of a thread or program says about its wait.

// "rank 1, which is in save (train.py:9)", "pid 77 (bash)", "the rank itself": a process of the host of `v`.
std::string process_words(const Scene& scene, const RankView& v, base::Pid pid);

// Of a program without Python below the rank: ": it sleeps", ": it waits for the lock on a.lock that the rank
// itself holds". Empty if the call says no more than that the program waits.
std::string program_call_words(const Scene& scene, const RankView& v,
                               const model::HelperObservation& program);

// "; the pipe that it writes to is full, and pid 77 (less), which has the other end open, does not read". Of
// a rank whose reader is neither its parent nor its child; empty otherwise.
std::string full_pipe_clause(const Scene& scene, const RankView& v);

// "; it looks for /data/a.done again and again, which does not exist". Of a rank in a loop that sleeps
// between its checks, or that checks in vain; empty if nothing is known about them.
std::string poll_clause(const Scene& scene, const RankView& v);
model::NextStep poll_advice(const RankView& v);
// "a.done": the same file without its directory.
std::string polled_name(const RankView& v);
// "rank 0 for a.0, rank 1 for b": what several ranks look for that does not exist; empty unless all of them
// do.
std::string polls_words(const Views& views);
// Ranks each of which looks for a file that, by the number in its name, the next one should make, the last
// one for one of the first. Empty if there are none.
Views poll_circle(const Scene& scene);

// "; no other process has the other end of this pipe open". Of a rank that reads; empty otherwise.
std::string lonely_pipe_clause(const RankView& v);

}  // namespace xpurun::report
