// Limits of the messages between the nodes of a job, in bytes, numbers and seconds. Everything beyond a limit
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
inline constexpr size_t kLongestName = 200;   // of a node, a host, a run, a communicator
inline constexpr size_t kLongestText = 1000;  // a reason, a place in the code
inline constexpr size_t kLongestPath = 4096;  // of a file or directory
inline constexpr size_t kLongestLineOfVerdict = 64 << 10;
inline constexpr size_t kMostLinesOfVerdict = 1000;
inline constexpr size_t kLongestBody = 4 << 20;  // the answer to a control request

// One line between the supervisor and its helper, in either direction.
inline constexpr size_t kLongestLine = 64 << 20;
// Lines that wait for the other side; then states are dropped.
inline constexpr size_t kMostQueued = 256 << 20;

// Messages and archives on the server, unpacked.
inline constexpr size_t kLongestMessage = 8 << 20;
inline constexpr size_t kChunkBytes = 192 << 10;
inline constexpr size_t kMostArchiveBytes = 256 << 20;  // packed
inline constexpr size_t kMostUnpackedBytes = size_t{2} << 30;
inline constexpr size_t kMostArchiveFiles = 20'000;
inline constexpr size_t kMostDownloads = 256;  // archives on their way to the elected node at a time
// Chunks of all archives that have been asked for: of 16 large archives, or of many small ones. The time of
// an answer passes once for all of them.
inline constexpr size_t kMostOnTheWayBytes = 24 << 20;
inline constexpr size_t kMostDownloadBytes = 256
                                             << 20;  // of those archives together, unless there is only one
inline constexpr size_t kChunksOnTheWay = 8;         // of one archive
inline constexpr size_t kMostPendingRequests = 256;
// Messages received and not yet handled, and messages to be sent; more are dropped.
inline constexpr size_t kMostReceivedBytes = 64 << 20;
inline constexpr size_t kMostUnsentBytes = 64 << 20;

// What all nodes have sent, handed out after a verdict: packed, to one node and to all of them together; and
// unpacked. A larger job has its whole page on the node that has judged only.
inline constexpr size_t kMostJobFilesBytes = 16 << 20;
inline constexpr size_t kMostHandedOutBytes = 64 << 20;
inline constexpr size_t kMostUnpackedJobFiles = 64 << 20;

// Nodes of a smaller rank hear the states of all nodes and can be elected at once; the others hear the
// elected node only, until it is silent.
inline constexpr int kWatchers = 8;

// Times.
inline constexpr double kStateIntervalS = 2;   // between two states of a node
inline constexpr double kDeadAfterS = 10;      // without a word
inline constexpr double kDumpAheadS = 0.2;     // between the request for a dump and the moment of the dump
inline constexpr double kAnswerTimeoutS = 10;  // for another node's answer, beyond the request's own time

inline constexpr double kListenS = 3;        // a node hears the others for this time before it can be elected
inline constexpr double kAloneAfterS = 3;    // without a connection until the supervisor gets `alone`
inline constexpr double kRepeatS = 1;        // between repetitions of what must arrive
inline constexpr double kChunkTimeoutS = 2;  // until a chunk is asked for again
inline constexpr double kClaimS = 60;        // a claim that led to no verdict is forgotten
inline constexpr double kHandOutS = 30;      // for handing out what all nodes have sent
inline constexpr double kPingIntervalS = 20;  // between measurements of a clock, after the first ones

}  // namespace xpurun::launcher
