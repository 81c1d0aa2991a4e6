// Limits of what the nodes of a job tell each other, in bytes, numbers and seconds. Everything beyond a limit
// is counted and dropped. One place for both sides: the supervisor and its helper xpurun-nodes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace xpurun::launcher {

// A job. Larger claims are lies or errors.
inline constexpr int kMostNodes = 100'000;
inline constexpr int kMostRanksOfJob = 10'000'000;
inline constexpr size_t kMostRanksOfNode = 4096;
inline constexpr size_t kMostCommunicatorsOfRank = 256;

// Texts.
inline constexpr size_t kLongestName = 200;      // of a node, a host, a run, a communicator
inline constexpr size_t kLongestText = 1000;     // a reason, a place in the code
inline constexpr size_t kLongestPath = 4096;     // of a file or directory
inline constexpr size_t kLongestBody = 4 << 20;  // the answer to a control request

// One line between the supervisor and its helper, in either direction.
inline constexpr size_t kLongestLine = 64 << 20;
// Lines that wait for the other side; then states are dropped.
inline constexpr size_t kMostQueued = 256 << 20;

// Times.
inline constexpr double kStateIntervalS = 2;   // between two states of a node
inline constexpr double kDeadAfterS = 10;      // without a word
inline constexpr double kDumpAheadS = 0.2;     // between the request for a dump and the moment of the dump
inline constexpr double kAnswerTimeoutS = 10;  // for the answer of another node to a control request

}  // namespace xpurun::launcher
