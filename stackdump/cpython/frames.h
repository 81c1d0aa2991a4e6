// The Python side of a snapshot: the threads of all interpreters, their frames in groups (one group per
// native _PyEval_EvalFrameDefault call), the code objects, and the holder of the GIL. Walking also copies:
// the given memory reads each structure exactly once.
#pragma once

#include "common/base/clock.h"
#include "common/model/stack_snapshot.h"
#include "stackdump/cpython/locate.h"
#include "stackdump/cpython/object.h"

#include <unordered_map>
#include <vector>

namespace xpurun::stackdump {

struct RawFrame {
  Addr code = 0;
  int64_t instruction = 0;  // f_lasti (<= 3.10) or the instruction's address; see instruction_index()
  int32_t copy = 0;         // number of the bytecode copy; not 0 only in free-threaded builds
  Addr address = 0;         // address of the frame itself
  bool operator==(const RawFrame&) const = default;
};

// The frames that one call of the native evaluation function runs, innermost first.
struct FrameGroup {
  Addr anchor = 0;  // an address inside the native frame; 0 for versions without anchors (<= 3.10)
  std::vector<RawFrame> frames;
};

// An exception that a thread is handling in an `except` or `finally` block, or in the exit of a `with` block.
struct HandledException {
  std::string type;  // empty: none
  std::string message;
  struct Entry {
    RawFrame frame;  // code and instruction only
    int line = 0;    // 0: derive it from the instruction
  };
  std::vector<Entry> traceback;  // outermost first
};

struct PyThread {
  Addr address = 0;                   // address of the PyThreadState
  std::string name;                   // threading.Thread.name, filled in by the caller
  std::vector<int64_t> interpreters;  // interpreters in which the thread has states; one for the state itself
  uint64_t thread_id = 0;             // pthread_self()
  uint64_t native_id = 0;             // tid in the process's own PID namespace, 0 before 3.11
  bool holds_gil = false;
  bool collecting = false;         // holds the GIL while the garbage collector runs
  bool may_collect = false;        // the collector runs without the GIL, in this or another thread
  std::string cut;                 // why outer frames are missing; empty if the walk was complete
  std::vector<FrameGroup> groups;  // innermost first
  HandledException handled;        // the innermost, filled in by the caller
  HandledException caught;         // by a loop that sleeps, likewise
};

struct PyInterpreter {
  int64_t id = 0;           // 0 is the main one
  Addr gil_holder = 0;      // PyThreadState, 0 if this GIL is free; until 3.11 all interpreters share one GIL
  bool collecting = false;  // garbage collection in progress, in any thread
};

// A task of asyncio that is not done, or a suspended greenlet.
struct RawTask {
  Addr address = 0;
  std::string name;
  Addr awaits = 0;               // another task; 0: none
  Addr lock = 0;                 // that it waits for; 0: not known
  std::string object;            // type of what it awaits; "greenlet", "lock"
  std::vector<RawFrame> frames;  // its coroutines, innermost first
};

struct PySnapshot {
  std::vector<PyInterpreter> interpreters;
  std::vector<PyThread> threads;
  std::unordered_map<Addr, CodeObject> code;                   // unreadable code objects are missing
  std::unordered_map<Addr, std::vector<model::Local>> locals;  // by RawFrame::address, on request
  std::unordered_map<Addr, std::string> module_calls;          // likewise: "nn.Module: Linear"
  std::vector<RawTask> tasks;                                  // of all event loops, filled in by the caller
  bool with_locals = false;                                    // they were requested
  bool complete = true;                                        // false: the deadline passed first
};

inline constexpr size_t kMaxPyFrames = 2048;  // of one thread

// The frames of the thread state at `thread`; `raw` is the content of the state (offsets.thread_size bytes).
PyThread read_py_thread(RemoteMemory& memory, const Offsets& offsets, Addr thread,
                        std::span<const std::byte> raw);

// Copies all interpreters, threads and frames, or stops at `deadline`.
PySnapshot read_python(RemoteMemory& memory, const PythonRuntime& runtime, base::MonoNs deadline);

// One frame; `bytes` is its content (offsets.frame_size bytes).
RawFrame raw_frame(Addr address, std::span<const std::byte> bytes, const Offsets& offsets);

// Adds the frame at `address` and its code object; false if the code object cannot be read.
bool add_frame(RemoteMemory& memory, const Offsets& offsets, Addr address, PySnapshot& snapshot,
               std::vector<RawFrame>& frames);

// Index or offset of a frame's instruction, in the unit that source_range() expects.
int64_t instruction_index(const RawFrame& frame, const CodeObject& code, const Offsets& offsets);

}  // namespace xpurun::stackdump
