// The closed vocabularies of a run directory. The names are part of the file formats (docs/rundir.md): a name
// may be added, never changed. A reader takes an unknown name for the value that says least.
#pragma once

#include "common/model/names.h"

namespace xpurun::model {

// What a process is in the job.
enum class ProcessRole {
  other,   // unrelated, or not known yet
  rank,    // one member of the world
  worker,  // a Python process that a rank started: a data loader's worker, a pool's
  agent,   // the launcher: torchrun, mpirun, accelerate
  child,   // any other process that a rank started
};
template <>
inline constexpr std::array<std::string_view, 5> kNames<ProcessRole> = {"other", "rank", "worker", "agent",
                                                                        "child"};

// Ranks, their helpers and the launcher: the processes whose stacks and deaths count.
constexpr bool takes_part(ProcessRole role) {
  return role == ProcessRole::rank || role == ProcessRole::worker || role == ProcessRole::agent;
}

// How the run ended.
enum class RunOutcome { running, exit, signal, hang, spawn_failed, interrupted };
template <>
inline constexpr std::array<std::string_view, 6> kNames<RunOutcome> = {
    "running", "exit", "signal", "hang", "spawn_failed", "interrupted"};

// Why a dump was taken.
enum class DumpReason {
  request,     // asked for over the control socket
  hang,        // a rank was still for the timeout
  crash,       // the preload reported a fatal signal
  death,       // a rank died without a notice
  signal,      // the user sent --dump-signal
  terminated,  // somebody sent a rank SIGTERM
};
template <>
inline constexpr std::array<std::string_view, 6> kNames<DumpReason> = {"request", "hang",   "crash",
                                                                       "death",   "signal", "terminated"};

// What came of one process's dump.
enum class DumpStatus {
  ok,
  partial,  // some threads or frames are missing
  failed,
  timeout,  // the helper was ended at its deadline
  dead,     // the process had ended before
};
template <>
inline constexpr std::array<std::string_view, 5> kNames<DumpStatus> = {"ok", "partial", "failed", "timeout",
                                                                       "dead"};

// A thread in several snapshots of one dump.
enum class Motion { unknown, stuck, moving };
template <>
inline constexpr std::array<std::string_view, 3> kNames<Motion> = {"", "stuck", "moving"};

// What a verdict is about.
enum class VerdictKind { none, running, hang, crash, exception, exit, interrupted };
template <>
inline constexpr std::array<std::string_view, 7> kNames<VerdictKind> = {
    "none", "running", "hang", "crash", "exception", "exit", "interrupted"};

// Whether the job is known to be broken.
enum class VerdictLevel {
  none,       // nothing is wrong
  suspected,  // busy or a long call: the job may be healthy
  confirmed,
};
template <>
inline constexpr std::array<std::string_view, 3> kNames<VerdictLevel> = {"", "suspected", "confirmed"};

// How sure the diagnosis is of what the verdict names.
enum class Confidence { none, low, medium, high };
template <>
inline constexpr std::array<std::string_view, 4> kNames<Confidence> = {"", "low", "medium", "high"};

// What a rank does at a dump. From worst to most harmless: if several ranks keep the others waiting, the
// first state leads the sentence.
enum class RankState {
  none,  // has no meaning here
  dead,
  stopped,          // by a signal or a debugger
  uninterruptible,  // in the kernel, D
  stuck,            // still, no CPU, not waiting for a peer (a lock counts as stuck)
  silent,           // nothing could be read
  busy,             // its position moves, it uses the CPU or it reads or writes files
  waiting,          // for peers
};
template <>
inline constexpr std::array<std::string_view, 8> kNames<RankState> = {
    "", "dead", "stopped", "uninterruptible", "stuck", "silent", "busy", "waiting"};

// Who has recorded the calls of collectives.
enum class CallSource {
  nccl,   // interposed nccl* functions
  torch,  // torch.distributed functions, any backend
};
template <>
inline constexpr std::array<std::string_view, 2> kNames<CallSource> = {"nccl", "torch"};

// How far a call has come. A source that cannot see a later stage says so in Communicator.
enum class CallStage {
  called,    // the program has entered the call
  launched,  // the call has returned, or the work has been handed to the GPU
  started,   // the kernel runs
  done,
};
template <>
inline constexpr std::array<std::string_view, 4> kNames<CallStage> = {"called", "launched", "started",
                                                                      "done"};

// What a communicator is for. A guess from its members.
enum class CommunicatorKind {
  unknown,
  world,     // all ranks
  tensor,    // neighbours: tensor parallel
  data,      // one rank of each group of neighbours: data parallel
  pipeline,  // stages
};
template <>
inline constexpr std::array<std::string_view, 5> kNames<CommunicatorKind> = {"", "world", "TP", "DP", "PP"};

// What --on-event tells of a job.
enum class JobEventKind {
  hang,       // confirmed: a culprit keeps the job from going on
  crash,      // a rank died of a signal
  exception,  // a rank raised an exception that nobody caught
  recovery,   // a hang that was told has passed, or the ranks have been started again
  end,        // the run has ended and its report has been made
};
template <>
inline constexpr std::array<std::string_view, 5> kNames<JobEventKind> = {"hang", "crash", "exception",
                                                                         "recovery", "end"};

// What came of one program that xpurun ran for the user: the command of --on-event, a plug-in.
enum class ProgramStatus {
  ok,
  failed,
  timeout,  // ended at its time limit
  not_run,  // could not be started, or too many were running
};
template <>
inline constexpr std::array<std::string_view, 4> kNames<ProgramStatus> = {"ok", "failed", "timeout",
                                                                          "not_run"};

// What xpurun did about a hang.
enum class HangAction { none, kill, restart };
template <>
inline constexpr std::array<std::string_view, 3> kNames<HangAction> = {"", "kill", "restart"};

// What came from a node of the job for a dump.
enum class NodeStatus {
  complete,  // its data is here
  partial,   // its data is here, its dump failed or is cut short
  silent,    // the node lives and sent no data in time
  cut_off,   // no word from the node
};
template <>
inline constexpr std::array<std::string_view, 4> kNames<NodeStatus> = {"complete", "partial", "silent",
                                                                       "cut_off"};

}  // namespace xpurun::model
