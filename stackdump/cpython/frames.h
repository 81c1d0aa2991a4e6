// The Python side of a snapshot: which threads the interpreters know, their frames in groups that belong to
// one native _PyEval_EvalFrameDefault each, the code objects behind them, and who holds the GIL. Walking
// copies: everything is read through the given memory exactly once.
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
  int64_t instruction = 0;  // f_lasti (<= 3.10) or the address of the instruction; see instruction_index()
  int32_t copy = 0;         // which copy of the code's instructions that is in; other than 0 without GIL only
  Addr address = 0;         // of the frame itself
  bool operator==(const RawFrame&) const = default;
};

// Frames that one call of the native evaluation function runs, innermost first.
struct FrameGroup {
  Addr anchor = 0;  // an address inside that native frame; 0 if the version has none (<= 3.10)
  std::vector<RawFrame> frames;
};

struct PyThread {
  Addr address = 0;                   // of the PyThreadState
  std::string name;                   // threading.Thread.name, filled in by who knows it
  std::vector<int64_t> interpreters;  // those it has states in; one for the state itself
  uint64_t thread_id = 0;             // pthread_self()
  uint64_t native_id = 0;             // tid in the process's own PID namespace, 0 before 3.11
  bool holds_gil = false;
  bool collecting = false;         // holds the GIL while the garbage collector runs
  bool may_collect = false;        // the collector runs without the GIL, in this thread or another
  std::string cut;                 // why outer frames are missing, empty if none are
  std::vector<FrameGroup> groups;  // innermost first
};

struct PyInterpreter {
  int64_t id = 0;           // 0 is the main one
  Addr gil_holder = 0;      // PyThreadState, 0 if nobody has this interpreter's GIL; until 3.11 all share one
  bool collecting = false;  // garbage, in whatever thread
};

struct PySnapshot {
  std::vector<PyInterpreter> interpreters;
  std::vector<PyThread> threads;
  std::unordered_map<Addr, CodeObject> code;                   // unreadable ones are missing
  std::unordered_map<Addr, std::vector<model::Local>> locals;  // by RawFrame::address, if asked for
  bool complete = true;                                        // false: the deadline came first
};

inline constexpr size_t kMaxPyFrames = 2048;  // of one thread

// The frames of the thread state at `thread`; `raw` is its content (offsets.thread_size bytes).
PyThread read_py_thread(RemoteMemory& memory, const Offsets& offsets, Addr thread,
                        std::span<const std::byte> raw);

// Everything, until `deadline`.
PySnapshot read_python(RemoteMemory& memory, const PythonRuntime& runtime, base::MonoNs deadline);

// Index or offset of a frame's instruction as source_range() wants it.
int64_t instruction_index(const RawFrame& frame, const CodeObject& code, const Offsets& offsets);

}  // namespace xpurun::stackdump
