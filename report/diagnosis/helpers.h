// Facts about a rank's hang from the rank's own threads and processes. Pure functions.
#pragma once

#include "report/diagnosis/rule.h"

#include <optional>
#include <string>

namespace xpurun::report {

// The process that a still rank waits for.
struct HelperPlace {
  base::Pid pid = 0;
  model::CodeLocation where;                       // empty for a program without Python
  double still_s = -1;                             // negative: not observed
  std::string name;                                // of a program without Python
  bool reads_input = false;                        // it waits for its standard input
  const model::HelperObservation* seen = nullptr;  // of a program without Python
  std::string below;  // "sh (pid 77)": the program of the rank that has started it
  const model::ProcessStacks* stacks = nullptr;
};
std::optional<HelperPlace> awaited_helper(const Scene& scene, const RankView& v);

// Where a process of a rank works: its main thread, or another one where that runs a library's loop. Empty
// for one that waits for work, as the processes of multiprocessing itself do: the rank does not wait for such
// a helper.
model::CodeLocation place_of_helper(const model::ProcessStacks& process);

// A still rank whose event loop waits for requests, as that of a server does.
bool serves(const RankView& v);
// All these ranks do, and no rank waits for another.
bool only_serves(const Scene& scene, const model::RankSet& ranks);

// A still rank whose helpers show a little progress: they may work, or be a meaningless heartbeat.
bool helpers_stir(const RankView& v);

// A process of the rank, which may wait for it, that has failed.
struct LostHelper {
  base::Pid pid = 0;
  std::string name;                                   // multiprocessing's: "ForkPoolWorker-2"; may be empty
  const model::HelperDeath* death = nullptr;          // at least one of these two
  const model::PythonException* exception = nullptr;  // that ended it
};
// The last one before the dump.
std::optional<LostHelper> lost_helper(const Scene& scene, const RankView& v);
// "; its ForkPoolWorker-2 (pid 77) was killed by SIGKILL at 14:03:07 UTC (12 s in)", "; its process (pid 77)
// raised ValueError: bad shard at train.py:4 (in load) at ...". Empty if there is none.
std::string lost_helper_clause(const Scene& scene, const RankView& v);
// The last exception within these seconds of the run that ended a process below the rank with this process;
// null: none.
const model::PythonException* helper_exception(const Scene& scene, base::Rank rank, base::Pid pid,
                                               double from_s, double to_s);
// The position of the process that this rank waits for: "; its dataloader worker pid 812 has been in
// read_sample (data.py:31) for 300 s". Empty if the rank waits for no process of its own, or if nothing is
// known about it.
std::string helper_clause(const Scene& scene, const RankView& v);

// A still rank that waits for an event, a condition, a barrier or a queue, in a process without another
// thread that could set, notify or fill it.
bool nobody_is_left(const RankView& v);
// "; no other thread of the process is left that could end this wait"; empty unless nobody is left.
std::string nobody_clause(const RankView& v);
// The thread that knows what the rank waits for, and that works on something else; null: none, or not known.
const model::ThreadStack* likely_setter(const RankView& v);
// All items of the queue that the rank waits for have been taken, and not all are done.
bool lacks_task_done(const RankView& v);
// The positions of the other threads that run code of the user's, where the main thread waits for a lock,
// queue or thread: "; its thread 105 (sync) waits for a lock in sync (train.py:62)". Empty if there are none.
std::string thread_clause(const RankView& v);

// The rank waits, also in its event loop, while all threads of a pool of its own wait for tasks of that pool.
bool waits_for_own_pool(const RankView& v);

// A still rank that waits for something outside the job, and may rightly do so for any time.
bool idles(const RankView& v);
// Without idle ranks, unless all are idle: a rank is accused of idling only if nobody else can be the
// culprit.
Views without_idle(const Views& views);

// Lowers the verdict to suspected where the whole stall may be healthy: ranks without peers that wait for
// something outside the job (unless --hang-idle), and, until the stall has outlasted --busy-timeouts, ranks
// whose helpers show some progress, and ranks that have not been still for the timeout themselves.
void doubt_stall(const Scene& scene, model::Verdict& verdict);

// A suspected rank may be working, which never ends the job by default: the sentence says so, and which
// option would end the job.
void offer_busy_timeouts(const Scene& scene, model::Verdict& verdict);

}  // namespace xpurun::report
