// ProcessStacks: the symbolised stacks of one process at one moment. stacks/stack_file.h describes the file
// <key>.stacks.json.
#pragma once

#include "common/base/ids.h"
#include "common/model/exception.h"
#include "common/model/vocabulary.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

inline constexpr std::string_view kStacksSuffix = ".stacks.json";
// The copy of the process that stacks can be rebuilt from (docs/snapshot.md).
inline constexpr std::string_view kSnapshotSuffix = ".snapshot";

enum class FrameKind {
  python,
  native,
  kernel,  // Linux kernel function, from /proc/PID/task/TID/stack
  gpu,     // running GPU kernel (innermost frames of the thread that waits for it)
  marker,  // no frame: says why a stack ends here or what is missing
};

template <>
inline constexpr std::array<std::string_view, 5> kNames<FrameKind> = {"python", "native", "kernel", "gpu",
                                                                      "marker"};

struct Local {
  std::string name;
  std::string value;      // short: 3, 'text', <list of 7>, <torch.Tensor>; "****" if the name looks secret
  std::string pyspy;      // as py-spy writes it: "text", [1, 2], <Thread at 0x7f00>; empty: like `value`
  uint64_t address = 0;   // of the object; of the cell, if inner functions use the variable
  bool argument = false;  // one of the function's arguments, without keyword-only ones, *args and **kwargs

  bool operator==(const Local&) const = default;
};

struct Frame {
  FrameKind kind = FrameKind::native;
  std::string
      func;  // Python: qualified name; native: demangled and shortened, or "module+0x1f"; marker: text
  std::string full_func;  // native: full demangled name where it differs from func
  std::string file;       // source file where known (Python: co_filename)
  int line = 0;           // 1-based; 0 unknown
  int column = 0;      // Python >= 3.11: 1-based first column (in UTF-8 bytes) of the instruction; 0 unknown
  int end_line = 0;    // last line of the same range; 0 unknown
  int end_column = 0;  // 1-based column after the range; 0 unknown
  std::string callee;  // Python, innermost frame only: the called expression in the source, e.g. "time.sleep"
  std::string module;  // native: file name of the mapped object, e.g. "libtorch_cpu.so"
  std::string build_id;       // native: hexadecimal; empty if unknown
  uint64_t pc = 0;            // native: address in the process
  uint64_t offset = 0;        // native: pc relative to the module's load bias
  uint64_t begin = 0;         // native: begin of the function, likewise; 0: unknown
  std::vector<Local> locals;  // Python, only on request
  bool eval = false;          // native frame that represents the Python frames directly before it (innermost
                              // first); omitted from merged views, shown in native-only views
  bool inlined = false;  // native: has no stack frame of its own; the compiler inlined it into the next one
  bool entry = false;    // Python: the outermost frame of one call of the native evaluation function

  bool operator==(const Frame&) const = default;
};

enum class GilState {
  none,
  holder,
  waiting,   // for the GIL
  dropping,  // released it on request and waits until another thread has taken it
};
template <>
inline constexpr std::array<std::string_view, 4> kNames<GilState> = {"", "holder", "waiting", "dropping"};

// One Python interpreter of the process. Up to 3.11 all share one GIL.
struct Interpreter {
  int64_t id = 0;            // 0 is the main one
  base::Tid gil_holder = 0;  // 0 if no thread holds the GIL, or if there is none (free-threaded)
  bool gc = false;           // garbage collection is running
};

// Who holds the lock that a thread waits for.
struct LockHolder {
  std::string kind;             // "flock", "fcntl", "mutex", "rwlock", "semaphore", "lock" (Python); or empty
  std::string path;             // flock, fcntl: the locked file; semaphore: see SharedLock
  std::vector<base::Pid> pids;  // flock, fcntl: the processes that hold the lock
  base::Tid tid = 0;            // mutex, rwlock, lock: the thread, which may be gone

  bool empty() const { return kind.empty(); }
  bool operator==(const LockHolder&) const = default;
};

// A lock of multiprocessing that a process holds.
struct SharedLock {
  std::string path;        // "/dev/shm/sem.mp-x1#4711": file and inode of its semaphore
  uint64_t thread_id = 0;  // ThreadStack::thread_id of the thread that has acquired it
};

// A task of asyncio, or a suspended greenlet.
struct AsyncTask {
  uint64_t id = 0;      // address
  std::string name;     // "Task-2", or the program's name for it
  uint64_t awaits = 0;  // `id` of the task that it awaits; 0: none
  std::string object;   // type of what it awaits: "Future", "_GatheringFuture"; empty: nothing; "greenlet"
  std::vector<Frame> frames;  // its chain of coroutines, innermost first
};

// What a path lies on (stacks/file_system.h).
struct FileSystem {
  std::string mount;    // mount point in the process's namespace: "/data"; empty: unknown
  std::string type;     // "nfs4", "fuse.sshfs", "ext4"
  std::string source;   // the server's export "10.0.0.7:/ds", a device, or a name without meaning
  int unanswered = -1;  // NFS: requests to the server without an answer; negative: unknown

  bool empty() const { return mount.empty(); }
};

// What a loop has asked for: one that sleeps between its checks, or one that asks in vain again and again.
struct PolledFile {
  std::string path;             // or the address of a connection
  bool missing = false;         // the file does not exist, or the connection was refused
  bool taken = false;           // a file or directory that the loop wants to make, and that exists
  int64_t made_s = 0;           // of a file that exists: its time of change, seconds since 1970; 0: unknown
  std::vector<base::Pid> pids;  // of a file that exists: the processes that have it open
  LockHolder lock;              // of a lock that the loop has asked for in vain; may be empty

  bool operator==(const PolledFile&) const = default;
};

struct ThreadStack {
  base::Tid tid = 0;
  uint64_t thread_id = 0;   // pthread_self(), threading.get_ident(); 0 if unknown
  std::string comm;         // kernel thread name
  std::string python_name;  // threading.Thread.name, if known
  char state = '?';         // proc(5) state before the stop: R S D T t Z
  bool main = false;        // thread-group leader
  bool circles = false;     // its complete state came back again and again (stackdump/ptrace/loop_watch.h)
  bool crashed = false;     // the frames start at the faulting instruction
  GilState gil = GilState::none;
  bool gc = false;                    // inside garbage collection
  std::vector<int64_t> interpreters;  // the thread's sub-interpreters, unless it is only in the main one
  uint64_t cpu_ms = 0;                // CPU time used so far
  std::string wchan;                  // kernel function it sleeps in; empty if unreadable
  std::string syscall;                // name or number of its system call; empty if unreadable
  std::string syscall_file;           // the file of a system call that may wait on a descriptor:
                                      // "pipe:[4711]", "socket:[99]" or a path; empty if unknown
  std::string target;            // what that call is about, for people: a path, "10.0.0.7:443", "worker.sock"
  std::vector<base::Pid> peers;  // the processes that have the other end of that pipe or local socket open,
                                 // this one included; empty if unknown
  std::vector<PolledFile> polls;    // between two sleeps; main thread only
  std::vector<base::Tid> sharers;   // Python: threads whose frames refer to the event, condition, barrier or
                                    // queue that it waits for
  FileSystem file_system;           // that the path in `target` lies on; empty if it is no path, or unknown
  LockHolder lock;                  // of the lock that it waits for; may be empty
  ExceptionLink handling;           // Python: the exception handled by an `except`, `finally` or `with` of
                                    // the thread; may be empty
  ExceptionLink caught;             // Python: the exception that a loop which sleeps has caught, and which is
                                    // handled no more; main thread only; may be empty
  ExceptionLink cpp_exception;      // crashed: the C++ exception that it had thrown; may be empty
  std::vector<Frame> frames;        // innermost first
  Motion motion = Motion::unknown;  // set by comparing several samples
};

// A kernel that was resident on a GPU of the process, from cuda-gdb.
struct GpuKernel {
  std::string name;       // without template arguments and parameters
  std::string full_name;  // set if different
  int device = -1;        // CUDA device number of the process
  int64_t grid = -1;      // the debugger's number of the launch
  std::string grid_dim;   // "24,1,1", in blocks
  std::string block_dim;  // "512,1,1", in threads
  std::string status;     // "Active"
};

// The signal that ended a process, from its core file.
struct FatalSignal {
  int signal = 0;            // 0: the process was alive
  int code = 0;              // si_code
  base::Tid tid = 0;         // the thread that got the signal
  bool has_address = false;  // the address is known
  uint64_t address = 0;      // that the thread could not access, or of its instruction
  base::Pid sender = 0;      // process that sent the signal, also the process itself; 0: the kernel

  bool empty() const { return signal == 0; }
};

struct ProcessStacks {
  std::string host;
  base::Pid pid = 0;
  base::Rank rank = base::kNoRank;
  int local_rank = -1;
  ProcessRole role = ProcessRole::other;
  std::string comm;
  std::vector<std::string> cmdline;  // redacted
  std::string python_version;        // "3.11.2"; empty if the process runs no Python
  bool forked = false;               // has called no exec since its fork from a parent that lives
  bool with_locals = false;          // local variables were requested
  int64_t wall_ns = 0;               // UTC time of the stop
  int64_t mono_ns = 0;               // CLOCK_MONOTONIC at the stop, comparable between processes of one host
  int64_t pause_ns = 0;              // from the first thread's stop to the last thread's resume
  std::string method;                // "ptrace", "no-stop", "gdb", "kernel", "core"
  DumpStatus status = DumpStatus::ok;
  std::string reason;  // empty if ok
  std::vector<std::string> notes;
  FatalSignal fatal_signal;               // of a process that a core file shows
  std::vector<Interpreter> interpreters;  // empty if the process runs no supported Python
  std::vector<ThreadStack> threads;
  std::vector<AsyncTask> tasks;  // of the event loops of the process that are not done
  std::vector<SharedLock> held_locks;
  std::vector<GpuKernel> gpu_kernels;
  std::map<std::string, std::string> module_paths;  // by Frame::module, where known

  const ThreadStack* main_thread() const;
};

// "died of SIGSEGV (address 0x0)"; empty if no fatal signal is known.
std::string fatal_words(const ProcessStacks& process);

}  // namespace xpurun::model
