// The closed vocabularies of a run directory. The names are part of the file formats (docs/rundir.md): names
// may be added but never changed. Readers map an unknown name to the least specific value.
#pragma once

#include "common/model/names.h"

namespace xpurun::model {

// The role of a process in the job.
enum class ProcessRole {
  other,   // unrelated, or not yet known
  rank,    // one member of the world
  worker,  // a Python process that a rank started: a data loader's worker, a pool's
  agent,   // the launcher: torchrun, mpirun, accelerate
  child,   // any other process that a rank started
};
template <>
inline constexpr std::array<std::string_view, 5> kNames<ProcessRole> = {"other", "rank", "worker", "agent",
                                                                        "child"};

// Ranks, their workers and the launcher: the processes whose stacks and deaths count.
constexpr bool takes_part(ProcessRole role) {
  return role == ProcessRole::rank || role == ProcessRole::worker || role == ProcessRole::agent;
}

// What a call between ranks does. Its other names are those of its source, such as "AllGatherV".
enum class CallOperation {
  other,
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  gather,
  scatter,
  all_to_all,
  barrier,
  send,
  recv,
};
template <>
inline constexpr std::array<std::string_view, 12> kNames<CallOperation> = {
    "other",  "all_reduce", "reduce",     "broadcast", "all_gather", "reduce_scatter",
    "gather", "scatter",    "all_to_all", "barrier",   "send",       "recv"};

constexpr CallOperation operation_of(std::string_view name) {
  return from_name<CallOperation>(name).value_or(CallOperation::other);
}
constexpr bool is_message(CallOperation operation) {
  return operation == CallOperation::send || operation == CallOperation::recv;
}

// Calls that wait for a lock of an MPI window.
constexpr bool is_lock_call(std::string_view op) {
  return op == "win_lock" || op == "win_unlock" || op == "win_flush";
}

// Why a process counts as a rank.
enum class RankSource {
  none,
  torchrun,  // variables of its environment
  plain,
  slurm,
  openmpi,
  pmi,
  spawned,  // by a process that waits for it
  single,   // the only process of its kind
};
template <>
inline constexpr std::array<std::string_view, 8> kNames<RankSource> = {
    "", "torchrun", "RANK", "slurm", "openmpi", "pmi", "spawned", "single"};

// Whether a dump asks NVIDIA's debugger for the kernels on the GPUs.
enum class GpuStacks {
  never,
  automatic,  // if a thread waits for a GPU
  always,
};
template <>
inline constexpr std::array<std::string_view, 3> kNames<GpuStacks> = {"never", "auto", "always"};

// The state of a node's part of the job.
enum class NodePhase { starting, running, stalled, ending, ended };
template <>
inline constexpr std::array<std::string_view, 5> kNames<NodePhase> = {"starting", "running", "stalled",
                                                                      "ending", "ended"};

// How the run ended.
enum class RunOutcome {
  running,
  exit,
  signal,
  hang,
  spawn_failed,
  interrupted,
  detached,  // xpurun stopped watching a job that it had not started
};
template <>
inline constexpr std::array<std::string_view, 7> kNames<RunOutcome> = {
    "running", "exit", "signal", "hang", "spawn_failed", "interrupted", "detached"};

// Why a dump was taken.
enum class DumpReason {
  request,     // requested over the control socket
  hang,        // a rank has been still for the timeout
  crash,       // the preload library reported a fatal signal
  death,       // a rank died without a notice
  signal,      // the user sent --dump-signal
  terminated,  // a rank was sent SIGTERM
};
template <>
inline constexpr std::array<std::string_view, 6> kNames<DumpReason> = {"request", "hang",   "crash",
                                                                       "death",   "signal", "terminated"};

// The result of one process's dump.
enum class DumpStatus {
  ok,
  partial,  // some threads or frames are missing
  failed,
  timeout,  // the helper was killed at its deadline
  dead,     // the process had already ended
};
template <>
inline constexpr std::array<std::string_view, 5> kNames<DumpStatus> = {"ok", "partial", "failed", "timeout",
                                                                       "dead"};

// A thread over several snapshots of one dump.
enum class Motion { unknown, stuck, moving };
template <>
inline constexpr std::array<std::string_view, 3> kNames<Motion> = {"", "stuck", "moving"};

// The subject of a verdict.
enum class VerdictKind { none, running, hang, crash, exception, exit, interrupted, slow, mismatch };
template <>
inline constexpr std::array<std::string_view, 9> kNames<VerdictKind> = {
    "none", "running", "hang", "crash", "exception", "exit", "interrupted", "slow", "mismatch"};

// Whether the job is known to be broken.
enum class VerdictLevel {
  none,       // nothing is wrong
  suspected,  // busy or a long call: the job may be healthy
  confirmed,
};
template <>
inline constexpr std::array<std::string_view, 3> kNames<VerdictLevel> = {"", "suspected", "confirmed"};

// The confidence in the verdict's culprits.
enum class Confidence { none, low, medium, high };
template <>
inline constexpr std::array<std::string_view, 4> kNames<Confidence> = {"", "low", "medium", "high"};

// The state of a rank at a dump, worst first: if several ranks keep the others waiting, the worst state leads
// the sentence.
enum class RankState {
  none,  // not applicable
  dead,
  stopped,          // by a signal or a debugger
  uninterruptible,  // in the kernel, state D
  stuck,            // still, without CPU use, not waiting for a peer (a lock counts as stuck)
  silent,           // no data could be read
  busy,             // its position changes, or it uses CPU time or does file I/O
  waiting,          // for peers
};
template <>
inline constexpr std::array<std::string_view, 8> kNames<RankState> = {
    "", "dead", "stopped", "uninterruptible", "stuck", "silent", "busy", "waiting"};

// The recorder of collective calls.
enum class CallSource {
  nccl,   // interposed nccl* functions
  torch,  // torch.distributed functions, any backend
  mpi,    // interposed MPI_* functions
};
template <>
inline constexpr std::array<std::string_view, 3> kNames<CallSource> = {"nccl", "torch", "mpi"};

// The progress of a call. Communicator says which later stages a source cannot see.
enum class CallStage {
  called,    // the program has entered the call
  launched,  // the call has returned, or its work is on the GPU's queue
  started,   // the kernel is running
  done,
};
template <>
inline constexpr std::array<std::string_view, 4> kNames<CallStage> = {"called", "launched", "started",
                                                                      "done"};

// How a rank's calls differ from its own routine and from the calls of the others.
enum class Departure {
  none,     // unknown, or no difference
  extra,    // one call more
  skipped,  // one call less
  other,    // another call instead
  order,    // two calls in the other order
};
template <>
inline constexpr std::array<std::string_view, 5> kNames<Departure> = {"", "extra_call", "skipped_call",
                                                                      "other_call", "order"};

// The purpose of a communicator, guessed from its members.
enum class CommunicatorKind {
  unknown,
  world,     // all ranks
  tensor,    // neighbours: tensor parallelism
  data,      // one rank of each group of neighbours: data parallelism
  pipeline,  // pipeline stages
};
template <>
inline constexpr std::array<std::string_view, 5> kNames<CommunicatorKind> = {"", "world", "TP", "DP", "PP"};

// Why steps take long.
enum class SlowCause {
  unknown,
  gpu_compute,     // the GPU needs longer for the same matmuls
  more_work,       // the GPU has other or more matmuls to do
  host_issue,      // the program is late to issue work
  gc,              // Python's garbage collection
  input,           // waiting for the next batch
  network,         // collectives take longer after the last rank has arrived
  memory,          // major page faults
  cpu_contention,  // threads that are ready to run get no CPU
  throttling,      // the GPU's clock is lowered
  gpu_shared,      // another program computes on the GPU
  checkpoint,
  evaluation,
};
template <>
inline constexpr std::array<std::string_view, 13> kNames<SlowCause> = {
    "unknown", "gpu_compute",    "more_work",  "host_issue", "gc",         "input",     "network",
    "memory",  "cpu_contention", "throttling", "gpu_shared", "checkpoint", "evaluation"};

// Events that --on-event reports.
enum class JobEventKind {
  hang,       // confirmed: a culprit holds up the job
  crash,      // a rank died of a signal
  exception,  // a rank raised an uncaught exception
  recovery,   // a reported hang has passed, or the ranks were restarted
  slow,       // the steps of the job take longer than before, or a rank keeps the others waiting
  end,        // the run has ended and its report is written
  stall,      // no step ends: what is known before the hang timeout
  memory,     // the memory of ranks grows and will reach its limit
  mismatch,   // ranks have made different calls that ended: their data are wrong
};
template <>
inline constexpr std::array<std::string_view, 9> kNames<JobEventKind> = {
    "hang", "crash", "exception", "recovery", "slow", "end", "stall", "memory", "mismatch"};

// The result of one program that xpurun ran for the user: the --on-event command, or a plug-in.
enum class ProgramStatus {
  ok,
  failed,
  timeout,  // killed at its time limit
  not_run,  // could not be started, or too many were running
};
template <>
inline constexpr std::array<std::string_view, 4> kNames<ProgramStatus> = {"ok", "failed", "timeout",
                                                                          "not_run"};

// xpurun's action on a hang.
enum class HangAction { none, kill, restart };
template <>
inline constexpr std::array<std::string_view, 3> kNames<HangAction> = {"", "kill", "restart"};

// The data that a node sent for a dump.
enum class NodeStatus {
  complete,  // its data was received
  partial,   // its data was received, but its dump failed or is truncated
  silent,    // the node is alive but sent no data in time
  cut_off,   // no message from the node
};
template <>
inline constexpr std::array<std::string_view, 4> kNames<NodeStatus> = {"complete", "partial", "silent",
                                                                       "cut_off"};

}  // namespace xpurun::model
