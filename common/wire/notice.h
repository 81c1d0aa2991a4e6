// Messages from the preload library to the supervisor, over a Unix socket of type SOCK_SEQPACKET whose path
// is in the environment. Each message is one record of fixed size in host byte order, because a signal
// handler must be able to send it: no pointers, no allocation, no encoding. Freestanding: shared by preload/
// and launcher/. Bump kNoticeVersion on any change of layout or meaning.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace xpurun::wire {

inline constexpr uint32_t kNoticeMagic = 0x4e525058;  // "XPRN"
inline constexpr uint16_t kNoticeVersion = 1;

// "1:<supervisor pid>:<crash wait in ms>:<path of the socket>"
inline constexpr char kRunEnv[] = "XPURUN_RUN";

enum class NoticeKind : uint16_t {
  // A Python process (or a rank) has started. No reply; the supervisor closes the connection at once.
  hello = 1,
  // A fatal signal is about to end the process. The sender waits for one reply byte, for a closed connection,
  // or for the end of the crash wait, then dies of the same signal. Signal 0: MPI ends the process, because
  // MPI_Abort was called or a function of MPI failed; `address` is the function (MpiFunction), `code` the
  // class of the error (mpi_functions.h), 0 for MPI_Abort.
  crash = 2,
  // The first GPU call was made. The reply is one byte with the descriptor of the process's segment
  // (segment.h), or a closed connection if there is none.
  attach = 3,
  // A message of Python's bootstrap: JSON text follows the record in the same message (python.h,
  // common/model/exception.h). No reply; the sender closes the connection at once.
  python = 4,
  // Python makes its first torch.distributed call or ends its first span. The reply is as for attach, with
  // the descriptor of the process's PythonSegment (python_segment.h).
  python_attach = 5,
  // A capture was requested of the process (ToRank::capture). The reply is as for attach, with the descriptor
  // of the CaptureSegment (capture.h).
  capture_attach = 6,
  // A program calls xpurun_step() or another function of xpurun.h for the first time. The reply is as for
  // python_attach, with a separate PythonSegment: a process may have both, and each has one writer.
  marks_attach = 7,
  // The process calls MPI_Init. The reply is as for attach, with the descriptor of the process's MpiSegment
  // (mpi_segment.h).
  mpi_attach = 8,
  // A process that may be a rank has started. The reply is as for attach, with the descriptor of
  // the process's HeapSegment (heap_segment.h).
  heap_attach = 9,
};

enum NoticeFlag : uint32_t {
  kNoticePython = 1u << 0,         // the process contains a Python interpreter
  kNoticeStackOverflow = 1u << 1,  // crash: the faulting address is beside the stack pointer
};

struct Notice {
  uint32_t magic;
  uint16_t version;
  uint16_t kind;       // NoticeKind
  uint32_t flags;      // NoticeFlag
  int32_t pid;         // in the sender's own PID namespace
  int32_t tid;         // thread that received the signal, in the same namespace
  int32_t signal;      // crash: signal number
  int32_t code;        // crash: si_code
  int32_t sender_pid;  // crash: si_pid if si_code says that a process sent the signal, else 0
  uint64_t address;    // crash: si_addr of synchronous signals, else 0
  uint64_t ucontext;   // crash: address of the handler's ucontext_t in the sender's memory
  uint64_t mono_ns;    // CLOCK_MONOTONIC at sending
  uint64_t reserved;
};

static_assert(sizeof(Notice) == 64, "wire layout");
static_assert(offsetof(Notice, address) == 32 && offsetof(Notice, mono_ns) == 48, "wire layout");

}  // namespace xpurun::wire
