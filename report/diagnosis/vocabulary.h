// The closed list of verdict ids. docs/verdicts.md explains each; a unit test compares the two. An id is
// never renamed, because scripts and dashboards depend on it.
#pragma once

#include <array>
#include <string_view>

namespace xpurun::report {

inline constexpr std::string_view kHangStuck = "hang.stuck";
inline constexpr std::string_view kHangLock = "hang.lock";
inline constexpr std::string_view kHangBusy = "hang.busy";
inline constexpr std::string_view kHangStopped = "hang.stopped";
inline constexpr std::string_view kHangUninterruptible = "hang.uninterruptible";
inline constexpr std::string_view kHangDead = "hang.dead";
inline constexpr std::string_view kHangLeftEarly = "hang.left_early";
inline constexpr std::string_view kHangSilent = "hang.silent";
inline constexpr std::string_view kHangMismatch = "hang.mismatch";
inline constexpr std::string_view kHangMismatchSize = "hang.mismatch_size";
inline constexpr std::string_view kHangMismatchType = "hang.mismatch_type";
inline constexpr std::string_view kHangMismatchRoot = "hang.mismatch_root";
inline constexpr std::string_view kHangOrder = "hang.order";
inline constexpr std::string_view kHangP2p = "hang.p2p";
inline constexpr std::string_view kHangNotJoined = "hang.not_joined";
inline constexpr std::string_view kHangNotEntered = "hang.not_entered";
inline constexpr std::string_view kHangNotLaunched = "hang.not_launched";
inline constexpr std::string_view kHangQueued = "hang.queued";
inline constexpr std::string_view kHangNotFinished = "hang.not_finished";
inline constexpr std::string_view kHangKernel = "hang.kernel";
inline constexpr std::string_view kHangGpuError = "hang.gpu_error";
inline constexpr std::string_view kHangNetwork = "hang.network";
inline constexpr std::string_view kHangAllWaiting = "hang.all_waiting";
inline constexpr std::string_view kHangLongCall = "hang.long_call";
inline constexpr std::string_view kHangUnknown = "hang.unknown";
inline constexpr std::string_view kCrashSignal = "crash.signal";
inline constexpr std::string_view kCrashKilled = "crash.killed";
inline constexpr std::string_view kCrashLauncher = "crash.launcher";
inline constexpr std::string_view kCrashMismatch = "crash.mismatch";
inline constexpr std::string_view kExitMismatch = "exit.mismatch";
inline constexpr std::string_view kExitNotEntered = "exit.not_entered";
inline constexpr std::string_view kExitError = "exit.error";
inline constexpr std::string_view kExitException = "exit.exception";
inline constexpr std::string_view kExitLeftEarly = "exit.left_early";
inline constexpr std::string_view kExitLauncher = "exit.launcher";
inline constexpr std::string_view kExitUnknown = "exit.unknown";
inline constexpr std::string_view kExitNotStarted = "exit.not_started";
inline constexpr std::string_view kInterrupted = "interrupted.signal";
inline constexpr std::string_view kInterruptedHung = "interrupted.while_hung";
inline constexpr std::string_view kNoneFinished = "none.finished";
inline constexpr std::string_view kNoneRequestsLeft = "none.requests_left";
inline constexpr std::string_view kNoneRanksLeft = "none.ranks_left";
inline constexpr std::string_view kNoneThreadRaised = "none.thread_raised";
inline constexpr std::string_view kNoneUnknownStatus = "none.unknown_status";
inline constexpr std::string_view kMismatchSilent = "mismatch.silent";
inline constexpr std::string_view kSlowRank = "slow.rank";
inline constexpr std::string_view kSlowJob = "slow.job";
inline constexpr std::string_view kSlowSpell = "slow.spell";
inline constexpr std::string_view kSlowPause = "slow.pause";
inline constexpr std::string_view kRunning = "running.unfinished";
inline constexpr std::string_view kRunningNow = "running.now";
inline constexpr std::string_view kRunningDetached = "running.detached";

inline constexpr std::array kVerdictIds = {
    kHangStuck,         kHangLock,         kHangBusy,         kHangStopped,      kHangUninterruptible,
    kHangDead,          kHangMismatchSize, kHangMismatchType, kHangMismatchRoot, kHangOrder,
    kHangP2p,           kHangNotEntered,   kHangNotLaunched,  kHangQueued,       kHangNotFinished,
    kHangKernel,        kHangGpuError,     kHangNetwork,      kCrashMismatch,    kExitMismatch,
    kExitNotEntered,    kHangLeftEarly,    kHangSilent,       kHangMismatch,     kHangAllWaiting,
    kHangLongCall,      kHangUnknown,      kCrashSignal,      kCrashKilled,      kCrashLauncher,
    kExitError,         kExitException,    kExitLeftEarly,    kExitLauncher,     kExitUnknown,
    kExitNotStarted,    kInterrupted,      kInterruptedHung,  kNoneFinished,     kRunning,
    kNoneUnknownStatus, kNoneRequestsLeft, kRunningNow,       kRunningDetached,  kSlowRank,
    kSlowJob,           kMismatchSilent,   kHangNotJoined,    kNoneRanksLeft,    kNoneThreadRaised,
    kSlowSpell,         kSlowPause,
};

}  // namespace xpurun::report
