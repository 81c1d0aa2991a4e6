// Messages from the preload library to the supervisor, over a Unix socket of type SOCK_SEQPACKET whose path
// is in the environment. Each message is one record of fixed size in host byte order. The preload library
// sends it from a signal handler: no pointers, no allocation, no encoding. Freestanding: shared by preload/
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
  // A Python process (or a rank) has started. No reply; the connection is closed at once.
  hello = 1,
  // A fatal signal is about to end the process. The sender waits for one reply byte, the end of the
  // connection, or the end of the crash wait, then dies of the same signal.
  crash = 2,
  // The first GPU call has been made. The reply is one byte with the descriptor of the process's segment
  // (segment.h), or the end of the connection if there is none for it.
  attach = 3,
  // What Python's bootstrap has to tell: the record is followed by JSON text in the same message (python.h,
  // common/model/exception.h). No reply; the sender closes the connection at once.
  python = 4,
  // Python makes its first call of torch.distributed. The reply is as to attach, with the descriptor of the
  // process's PythonSegment (python_segment.h).
  python_attach = 5,
};

enum NoticeFlag : uint32_t {
  kNoticePython = 1u << 0,  // a Python interpreter is in the process
};

struct Notice {
  uint32_t magic;
  uint16_t version;
  uint16_t kind;       // NoticeKind
  uint32_t flags;      // NoticeFlag
  int32_t pid;         // as the sender sees itself (its own PID namespace)
  int32_t tid;         // thread that took the signal, likewise
  int32_t signal;      // crash: number
  int32_t code;        // crash: si_code
  int32_t sender_pid;  // crash: si_pid if code says a process sent it, else 0
  uint64_t address;    // crash: si_addr of synchronous signals, else 0
  uint64_t ucontext;   // crash: address of the handler's ucontext_t in the sender's memory
  uint64_t mono_ns;    // CLOCK_MONOTONIC when sent
  uint64_t reserved;
};

static_assert(sizeof(Notice) == 64, "wire layout");
static_assert(offsetof(Notice, address) == 32 && offsetof(Notice, mono_ns) == 48, "wire layout");

}  // namespace xpurun::wire
