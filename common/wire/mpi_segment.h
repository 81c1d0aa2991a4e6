// The memory shared by an MPI process and the supervisor: what the process has called on each communicator,
// the call that each thread is in, unfinished requests, and how many messages went to and came from each
// peer. The supervisor creates a memfd, seals its size, and sends it when the process calls MPI_Init
// (NoticeKind::mpi_attach). The supervisor keeps its own mapping, so the data outlives the process. The
// writer is preload/mpi/: each MpiThread has one writing thread; of a communicator, MPI allows one collective
// at a time. Readers trust nothing and check indices. docs/wire.md describes the layout in prose.
//
// Freestanding: shared by preload/ and launcher/. Bump kMpiSegmentVersion on any change of layout or meaning.
#pragma once

#include <atomic>
#include <stddef.h>
#include <stdint.h>

namespace xpurun::wire {

inline constexpr uint64_t kMpiSegmentMagic = 0x3149'504d'4e52'5058;  // "XPRNMPI1"
inline constexpr uint32_t kMpiSegmentVersion = 3;

inline constexpr uint32_t kMpiThreads = 16;  // threads that call MPI
inline constexpr uint32_t kMpiComms = 128;   // a power of two
inline constexpr uint32_t kMpiWindows = 32;
inline constexpr uint32_t kMpiRequests = 4096;  // a power of two
inline constexpr uint32_t kMpiChannels = 1024;  // a power of two
inline constexpr uint32_t kMpiCollectives = 8;  // latest calls kept per communicator
inline constexpr uint32_t kMpiMembers = 65536;  // of all communicators together
inline constexpr uint32_t kMpiProbes = 8;       // entries in a row that a search in a table looks at
inline constexpr uint32_t kMpiLocks = 16;       // locks of windows that a process holds
inline constexpr uint32_t kMpiSites = 256;      // places in the program with calls; a power of two
inline constexpr uint32_t kMpiTimed = 4096;     // latest timed calls kept; a power of two

// Ranks in MpiCall: any rank or tag, and no rank.
inline constexpr int32_t kMpiAny = -1;
inline constexpr int32_t kMpiNoRank = -2;
inline constexpr uint32_t kMpiNoComm = 0xffffffff;

// The predefined types of which the name is known; `unknown` are all others.
// X(name without MPI_; end of Open MPI's name; name in the facts; bytes; handle in MPICH)
#define XPURUN_MPI_TYPES(X)                                           \
  X(CHAR, char, "int8", 1, 0x4c000101)                                \
  X(BYTE, byte, "byte", 1, 0x4c00010d)                                \
  X(SHORT, short, "int16", 2, 0x4c000203)                             \
  X(INT, int, "int32", 4, 0x4c000405)                                 \
  X(UNSIGNED, unsigned, "uint32", 4, 0x4c000406)                      \
  X(LONG, long, "int64", 8, 0x4c000807)                               \
  X(UNSIGNED_LONG, unsigned_long, "uint64", 8, 0x4c000808)            \
  X(FLOAT, float, "float32", 4, 0x4c00040a)                           \
  X(DOUBLE, double, "float64", 8, 0x4c00080b)                         \
  X(LONG_LONG, long_long_int, "int64", 8, 0x4c000809)                 \
  X(INTEGER, integer, "int32", 4, 0x4c00041b)                         \
  X(REAL, real, "float32", 4, 0x4c00041c)                             \
  X(DOUBLE_PRECISION, dblprec, "float64", 8, 0x4c00081f)              \
  X(SIGNED_CHAR, signed_char, "int8", 1, 0x4c000118)                  \
  X(UNSIGNED_CHAR, unsigned_char, "uint8", 1, 0x4c000102)             \
  X(UNSIGNED_SHORT, unsigned_short, "uint16", 2, 0x4c000204)          \
  X(UNSIGNED_LONG_LONG, unsigned_long_long, "uint64", 8, 0x4c000819)  \
  X(LONG_DOUBLE, long_double, "float128", 16, 0x4c00100c)             \
  X(INT8_T, int8_t, "int8", 1, 0x4c000137)                            \
  X(INT16_T, int16_t, "int16", 2, 0x4c000238)                         \
  X(INT32_T, int32_t, "int32", 4, 0x4c000439)                         \
  X(INT64_T, int64_t, "int64", 8, 0x4c00083a)                         \
  X(UINT8_T, uint8_t, "uint8", 1, 0x4c00013b)                         \
  X(UINT16_T, uint16_t, "uint16", 2, 0x4c00023c)                      \
  X(UINT32_T, uint32_t, "uint32", 4, 0x4c00043d)                      \
  X(UINT64_T, uint64_t, "uint64", 8, 0x4c00083e)                      \
  X(C_BOOL, c_bool, "bool", 1, 0x4c00013f)                            \
  X(C_FLOAT_COMPLEX, c_float_complex, "complex64", 8, 0x4c000840)     \
  X(C_DOUBLE_COMPLEX, c_double_complex, "complex128", 16, 0x4c001041) \
  X(CHARACTER, character, "int8", 1, 0x4c00011a)                      \
  X(LOGICAL, logical, "int32", 4, 0x4c00041d)                         \
  X(COMPLEX, cplex, "complex64", 8, 0x4c00081e)                       \
  X(DOUBLE_COMPLEX, dblcplex, "complex128", 16, 0x4c001022)           \
  X(REAL8, real8, "float64", 8, 0x4c000829)                           \
  X(INTEGER8, integer8, "int64", 8, 0x4c000831)                       \
  X(AINT, aint, "int64", 8, 0x4c000843)                               \
  X(PACKED, packed, "byte", 1, 0x4c00010f)

enum class MpiType : uint32_t {
  unknown,
#define XPURUN_MPI_TYPE(name, symbol, word, bytes, mpich) name,
  XPURUN_MPI_TYPES(XPURUN_MPI_TYPE)
#undef XPURUN_MPI_TYPE
};

// The arguments of a call.
struct MpiCall {
  std::atomic<uint32_t> function;  // MpiFunction; 0: none
  std::atomic<uint32_t> comm;      // index in MpiSegment::comms
  std::atomic<int32_t> peer;       // rank in the communicator: of a message, or the root; kMpiAny, kMpiNoRank
  std::atomic<int32_t> tag;        // of a message; kMpiAny
  std::atomic<uint64_t> count;     // elements
  std::atomic<uint32_t> type;      // MpiType
  std::atomic<uint32_t> window;    // index in MpiSegment::windows plus 1; 0: none
  std::atomic<uint64_t> sequence;  // collectives: on the communicator, from 1; messages: in their channel,
                                   // from 1; 0: not known yet, because the source or the tag is kMpiAny
  // CLOCK_MONOTONIC at the kernel's last tick; 0: of a blocking message, for which a reading would cost too
  // much
  std::atomic<uint64_t> called_ns;
  std::atomic<uint64_t> caller;  // return address: the place of the call in the program
};

// What one thread does. Read `steps`, the rest, and `steps` again: if the two differ, the thread has moved.
struct MpiThread {
  std::atomic<int32_t> tid;         // in the process's own PID namespace; 0: free
  std::atomic<uint32_t> error;      // 1: the error handler was called inside this call
  std::atomic<uint64_t> steps;      // calls that were entered or left, without polls that found nothing
  std::atomic<uint64_t> polls;      // calls that found nothing: MPI_Test, MPI_Iprobe
  MpiCall call;                     // the call that the thread is in
  MpiCall other;                    // the receive of MPI_Sendrecv
  MpiCall polled;                   // the latest MPI_Iprobe that found nothing
  std::atomic<uint64_t> polled_at;  // `steps` at that time
  // A call is timed if its number (a collective's `sequence`, else half of `steps`) has none of these bits.
  // The thread sets them so that it takes no time more often than every 100 us; equal bits choose equal
  // collectives on all ranks. The supervisor clears the bits ten times a second, because calls may have
  // become rare.
  std::atomic<uint32_t> untimed;
  uint32_t reserved[5];
};

enum class MpiCommState : uint32_t { free, making, live, ended };

struct MpiComm {
  std::atomic<uint32_t> state;  // MpiCommState
  std::atomic<uint32_t> flags;  // MpiCommFlag
  std::atomic<uint64_t> handle;
  std::atomic<uint64_t> identity;  // equal on all ranks of the communicator; 0: MPI_COMM_WORLD
  std::atomic<int32_t> rank;
  std::atomic<int32_t> size;
  std::atomic<uint32_t> members;  // index of the first in MpiSegment::members, plus 1: ranks in
                                  // MPI_COMM_WORLD; 0: unknown, or MPI_COMM_WORLD itself
  std::atomic<uint32_t> open;     // 1: a thread is inside the newest collective
  std::atomic<uint64_t> called;   // number of collectives
  char name[64];                  // given by the program
  // Of an intercommunicator: the size of the other group, whose members follow those of the own group; `rank`
  // and `size` are those of the own group.
  std::atomic<int32_t> remote_size;
  std::atomic<uint32_t> made;            // number among the communicators with the same members, from 1
  MpiCall collectives[kMpiCollectives];  // call n is at index n % kMpiCollectives
};

enum MpiCommFlag : uint32_t {
  kMpiCommInter = 1u << 0,    // an intercommunicator: peers are ranks of the other group
  kMpiCommForeign = 1u << 2,  // ranks of another MPI_COMM_WORLD (MPI_Comm_spawn) are among the members
  kMpiCommMissed = 1u << 1,   // messages were received of which the source is not known
};

// The tags of messages on the communicator of a window. Its epochs are such messages: MPI_Win_post sends one
// to each rank of its group, which MPI_Win_start and MPI_Win_complete receive; MPI_Win_complete sends one to
// each rank of its group, which MPI_Win_wait receives.
inline constexpr int32_t kMpiPosted = 0;
inline constexpr int32_t kMpiCompleted = 1;
// In MpiCall::tag of a collective: MPI_Start has started a persistent request, whose creation is another
// call.
inline constexpr int32_t kMpiStarted = 1;

struct MpiWindow {
  std::atomic<uint32_t> state;  // MpiCommState
  std::atomic<uint32_t> comm;   // index in MpiSegment::comms
  std::atomic<uint64_t> handle;
  std::atomic<uint64_t> number;  // of the windows of this communicator, from 1
};

struct MpiLock {
  std::atomic<uint32_t> window;  // index in MpiSegment::windows plus 1; 0: free
  std::atomic<int32_t> target;   // rank in the window's communicator; kMpiAny: all
  std::atomic<uint32_t> exclusive;
  uint32_t reserved;
};

enum class MpiRequestState : uint32_t { free, pending, idle, forgotten };

struct MpiRequest {
  std::atomic<uint64_t> handle;
  std::atomic<uint32_t> state;      // MpiRequestState; idle: persistent, not started
  std::atomic<uint32_t> thread;     // index of the thread that waited for the request last
  std::atomic<uint64_t> waited_at;  // MpiThread::steps of that thread when it last waited or tested
  MpiCall call;                     // that made the request
  std::atomic<uint32_t> waited_by;  // MpiFunction
  uint32_t persistent;
  std::atomic<uint64_t> waited_from;  // return address of that wait
  // Of MPI_Psend_init: number of partitions, and how many of them are ready since MPI_Start. The message has
  // its number from the moment at which all are.
  std::atomic<uint32_t> partitions;
  std::atomic<uint32_t> ready;
};

// Messages between this process and one peer with one tag, in one direction.
struct MpiChannel {
  std::atomic<uint64_t> key;      // 0: free; index of the communicator, direction, peer, tag: channel_key()
  std::atomic<uint64_t> started;  // number of calls
};

// All calls from one place of the program, without polls that found nothing.
struct MpiSite {
  std::atomic<uint64_t> caller;  // return address; 0: free
  std::atomic<uint64_t> calls;
  std::atomic<uint64_t> bytes;  // of the arguments; 0 for functions without a count
  std::atomic<uint64_t> timed;  // of the calls, and their time
  std::atomic<uint64_t> timed_ns;
  std::atomic<uint32_t> function;  // MpiFunction of the first call
  // In the library of another language (Fortran): how many bytes above its return address, on the stack, that
  // of its caller lies. 0: a place of the program.
  std::atomic<uint32_t> above;
  uint32_t reserved[4];
};

// A timed call.
struct MpiTime {
  uint64_t begin_ns;  // CLOCK_MONOTONIC
  uint64_t duration_ns;
  // As in MpiCall. Of a request, the call that waits for it has the number; of a send, the call that starts
  // it.
  uint64_t sequence;
  uint64_t bytes;
  uint64_t caller;
  uint32_t function;  // MpiFunction
  uint32_t comm;      // index in MpiSegment::comms; kMpiNoComm
  int32_t peer;       // of a message; kMpiNoRank
  int32_t tag;
  uint32_t receives;  // 1: of a message that is received
  int32_t tid;
};
// Valid if `number` is equal before and after reading the rest.
struct MpiTimedCall {
  std::atomic<uint64_t> number;  // from 1 in the process; call n is at index (n - 1) % kMpiTimed; 0: being
                                 // written
  MpiTime time;
};

// The function that the error handler was called in, and what it said, until the next error.
struct MpiError {
  std::atomic<uint32_t> function;  // MpiFunction
  std::atomic<int32_t> code;
  std::atomic<int32_t> error_class;
  std::atomic<uint32_t> thread;
  std::atomic<uint64_t> caller;
  char text[232];  // MPI's own: "MPI_ERR_RANK: invalid rank"
};

struct MpiSegment {
  // Written by the supervisor.
  uint64_t magic;
  uint32_t version;
  uint32_t bytes;  // sizeof(MpiSegment)
  // Written by the process.
  std::atomic<uint32_t> lost;           // entries for which a table had no room
  std::atomic<uint32_t> members_used;   // in `members`
  std::atomic<int32_t> pid;             // in the process's own PID namespace
  std::atomic<uint32_t> ended;          // 1 after MPI_Finalize
  std::atomic<uint32_t> records_times;  // written by the supervisor; 0: no call is timed
  uint32_t reserved;
  std::atomic<uint64_t> timed_calls;  // the newest in `timed`
  uint64_t reserved_too;
  MpiThread threads[kMpiThreads];  // the first is the main thread's
  MpiError error;
  MpiComm comms[kMpiComms];  // the first is MPI_COMM_WORLD
  MpiWindow windows[kMpiWindows];
  MpiLock locks[kMpiLocks];
  MpiRequest requests[kMpiRequests];
  MpiChannel channels[kMpiChannels];
  int32_t members[kMpiMembers];
  MpiSite sites[kMpiSites];
  MpiTimedCall timed[kMpiTimed];
};

struct MpiChannelKey {
  uint32_t comm;
  bool receives;
  int32_t peer;
  int32_t tag;
};
// Never 0, because the key of a channel says that there is one. Tags above 2^30 share channels.
constexpr uint64_t channel_key(const MpiChannelKey& k) {
  return uint64_t{1} << 63 | uint64_t{k.comm & 0x7f} << 55 | uint64_t{k.receives ? 1u : 0u} << 54 |
         uint64_t{static_cast<uint32_t>(k.peer) & 0xffffff} << 30 |
         (static_cast<uint32_t>(k.tag) & 0x3fffffff);
}
constexpr MpiChannelKey channel_of(uint64_t key) {
  return {static_cast<uint32_t>(key >> 55) & 0x7f, (key >> 54 & 1) != 0,
          static_cast<int32_t>(key >> 30 & 0xffffff), static_cast<int32_t>(key & 0x3fffffff)};
}

static_assert(sizeof(MpiCall) == 56 && offsetof(MpiCall, sequence) == 32, "wire layout");
static_assert(sizeof(MpiThread) == 24 + 3 * 56 + 32, "wire layout");
static_assert(sizeof(MpiComm) == 120 + 8 * 56 && offsetof(MpiComm, name) == 48, "wire layout");
static_assert(sizeof(MpiRequest) == 104 && sizeof(MpiError) == 256, "wire layout");
static_assert(sizeof(MpiSite) == 64 && sizeof(MpiTimedCall) == 72, "wire layout");
static_assert(offsetof(MpiSegment, threads) == 56, "wire layout");

}  // namespace xpurun::wire
