// RankView: everything known about one rank at the moment of a dump (the observation, the rank's stacks and
// its record) and the state that follows. Views point into the Facts that they were made from.
#pragma once

#include "report/diagnosis/facts.h"
#include "report/diagnosis/waits/wait_patterns.h"

#include <optional>
#include <string>
#include <vector>

namespace xpurun::report {

using model::RankState;

struct RankView {
  base::Rank rank = base::kNoRank;
  base::Pid pid = 0;
  std::string host;
  RankState state = RankState::silent;
  std::optional<Wait> wait;    // of any kind, including local waits
  model::CodeLocation where;   // in the user's code; empty function if unknown
  double seconds = 0;          // spent in this state
  bool apart = false;          // has nothing to do with the stall that is judged
  bool debugged = false;       // the state is stopped, and a debugger holds the process
  bool frozen = false;         // the state is stopped, with its control group
  double still_share = 1;      // for which part of the timeout it has stood still; 1: all of it, or not known
  bool moved = false;          // its position changed within the last half of the timeout
  bool works = false;          // its main thread uses a CPU
  bool only_moved = false;     // busy for no other reason
  bool in_vain = false;        // it waits for a process that waits for a lock which nobody is left to give
  bool calls_nothing = false;  // its records know calls, none of the latest part of this time
  std::string silent_reason;   // why there are no stacks
  const model::ProcessStacks* stacks = nullptr;
  const model::ThreadStack* thread = nullptr;  // the thread that decided the state
  const model::ThreadStack* at_work =
      nullptr;  // where the main thread only runs a loop: the thread of `where`
  const model::RankObservation* seen = nullptr;
  const model::ProcessRecord* record = nullptr;

  bool crashed = false;  // dead: held in the preload library's handler of its fatal signal
  const model::ThreadStack* gil_holder = nullptr;     // another thread of the process, which keeps this rank
                                                      // from running
  std::vector<const model::ThreadStack*> in_acquire;  // all threads that wait for a lock of the process
  const model::ProcessStacks* full_pipe =
      nullptr;  // the process that cannot write: the rank or a child of it
  const model::ProcessStacks* pipe_reader = nullptr;  // the process that waits for the writer's end instead
                                                      // of reading
  const model::HelperObservation* full_program = nullptr;  // a program that the rank waits for, and that
                                                           // cannot write to the rank

  bool cut_off() const { return full_pipe != nullptr || full_program != nullptr; }
  bool waits_locally() const { return wait && !waits_for_peers(wait->kind); }
  // Of Python: no other thread can end the wait.
  bool holds_its_own_lock() const {
    return thread != nullptr && thread->lock.kind == "lock" && thread->lock.tid == thread->tid;
  }
};

// The frames of a crashed thread without those of the preload library's own handler, which lie innermost if
// the interrupted state could not be read.
std::vector<model::Frame> crash_frames(const model::ThreadStack& thread);

// The thread that the interpreter waits for at its end, if the main thread has run the whole program; null
// otherwise.
const model::ThreadStack* last_thread(const RankView& v);

// The main thread waits for a process that it has started.
bool waits_for_child(const model::ProcessStacks& process);

// The program itself asks torch's store for a key, which only another rank or process sets.
bool asks_for_key(const RankView& v);

// The latest process of every rank of the run, ordered by rank. A restarted rank has several processes.
std::vector<const model::ProcessRecord*> current_ranks(const model::RunManifest& run);
// A rank that is the user's command without Python and without a launcher's variables, such as `sh job.sh`.
// Whether xpurun has seen such a process before its end is chance, so that its end is reported as that of the
// command, as if it had not been seen.
bool is_plain_command(const model::ProcessRecord& process);

// Serves the processes that multiprocessing starts, and does no work of the program.
bool serves_processes(const model::ProcessRecord& process);
// Python processes that the only rank has started, without those that serve the others; 0 in a job with
// several ranks. They may be what does the work.
size_t started_by_only_rank(const model::RunManifest& run);

// One view per rank that appears in the dump or in the run, ordered by rank.
std::vector<RankView> rank_views(const Facts& facts);

}  // namespace xpurun::report
