#include "stackdump/cpython/frames.h"

#include "stackdump/cpython/object.h"

#include <array>
#include <memory_resource>
#include <unordered_set>
#include <vector>

namespace xpurun::stackdump {

namespace {

constexpr size_t kMaxThreads = 16384;
constexpr size_t kMaxInterpreters = 256;
constexpr uint8_t kFirstShimOwner = 3;  // FRAME_OWNED_BY_CSTACK and later kinds: frames without Python code

// Follows the frame chain of one thread. The chain may be garbage, because the thread was stopped at any
// instruction: the walk is bounded, and a frame seen twice ends it.
class Walker {
 public:
  Walker(RemoteMemory& memory, const Offsets& offsets, PyThread& out)
      : memory_(memory), o_(offsets), out_(out), frame_(offsets.frame_size) {}

  void walk(Addr start) {
    Addr cframe = 0;
    Addr frame = start;
    if (o_.chain == FrameChain::cframe_entry || o_.chain == FrameChain::cframe_shim) {
      cframe = start;
      frame = pointer(cframe + o_.cframe_current);
    }
    FrameGroup group;
    while (frame != 0) {
      if (!seen_.insert(frame).second) {
        out_.cut = "frames form a circle";
        break;
      }
      if (seen_.size() > kMaxPyFrames) {
        out_.cut = "more frames than are shown";
        break;
      }
      const std::span<const std::byte> bytes(frame_);
      if (!memory_.read(frame, frame_)) {
        out_.cut = "a frame cannot be read";
        break;
      }
      const bool shim = shims() && field<uint8_t>(bytes, o_.frame_boundary).value_or(0) >= kFirstShimOwner;
      if (!shim) {
        group.frames.push_back(raw_frame(frame, bytes, o_));
      }
      if (shim) {
        // A shim frame marks the entry from C into the interpreter loop: here native frames belong between
        // Python's.
        group.anchor = frame;
        close(group);
      } else if (o_.chain == FrameChain::cframe_entry &&
                 field<uint8_t>(bytes, o_.frame_boundary) != uint8_t{0}) {
        group.anchor = cframe;
        close(group);
        cframe = cframe == 0 ? 0 : pointer(cframe + o_.cframe_previous);
      } else if (o_.chain == FrameChain::objects) {
        // Before 3.11 every Python call has its own C frame of the interpreter loop, so each frame is a
        // group.
        close(group);
      }
      frame = field<uint64_t>(bytes, o_.frame_previous).value_or(0);
    }
    close(group);
  }

 private:
  bool shims() const { return o_.chain == FrameChain::cframe_shim || o_.chain == FrameChain::shim; }
  Addr pointer(Addr a) { return memory_.value<uint64_t>(a).value_or(0); }

  void close(FrameGroup& group) {
    if (!group.frames.empty()) {
      out_.groups.push_back(std::move(group));
    }
    group = {};
  }

  RemoteMemory& memory_;
  const Offsets& o_;
  PyThread& out_;
  // The process is stopped during the walk, so the walk must not allocate for each of thousands of frames.
  std::vector<std::byte> frame_;
  std::array<std::byte, 4096> few_;
  std::pmr::monotonic_buffer_resource room_{few_.data(), few_.size()};
  std::pmr::unordered_set<Addr> seen_{&room_};
};

// The thread state that holds this interpreter's GIL, 0 if the GIL is free.
Addr gil_holder(RemoteMemory& memory, const PythonRuntime& runtime, Addr interp) {
  const Offsets& o = runtime.offsets;
  Addr gil = 0;
  // One GIL in _PyRuntime up to 3.11; one for each interpreter from 3.12 on (PEP 684).
  if (o.runtime_gil != kAbsent) {
    gil = runtime.address + o.runtime_gil;
  } else if (o.interp_gil != kAbsent) {
    gil = memory.value<uint64_t>(interp + o.interp_gil).value_or(0);
  }
  // "locked" is -1 before the GIL exists, then 0 or 1. last_holder stays set after a release, so it counts
  // only while locked.
  if (gil == 0 || memory.value<int32_t>(gil + o.gil_locked).value_or(0) != 1) {
    return 0;
  }
  return memory.value<uint64_t>(gil + o.gil_holder).value_or(0);
}

bool is_collecting(RemoteMemory& memory, const PythonRuntime& runtime, Addr interp) {
  const Offsets& o = runtime.offsets;
  const Addr flag = o.interp_gc_collecting != kAbsent    ? interp + o.interp_gc_collecting
                    : o.runtime_gc_collecting != kAbsent ? runtime.address + o.runtime_gc_collecting
                                                         : 0;
  return flag != 0 && memory.value<int32_t>(flag).value_or(0) == 1;
}

}  // namespace

RawFrame raw_frame(Addr address, std::span<const std::byte> bytes, const Offsets& o) {
  RawFrame f;
  f.address = address;
  f.code = field<uint64_t>(bytes, o.frame_code).value_or(0) & ~(o.frame_tagged ? kTagBits : 0);
  f.instruction = o.chain == FrameChain::objects
                      ? field<int32_t>(bytes, o.frame_instr).value_or(-1)
                      : static_cast<int64_t>(field<uint64_t>(bytes, o.frame_instr).value_or(0));
  if (o.frame_tlbc != kAbsent) {
    f.copy = field<int32_t>(bytes, o.frame_tlbc).value_or(0);
  }
  return f;
}

PyThread read_py_thread(RemoteMemory& memory, const Offsets& o, Addr thread, std::span<const std::byte> raw) {
  PyThread out;
  out.address = thread;
  out.thread_id = field<uint64_t>(raw, o.thread_id).value_or(0);
  if (o.thread_native_id != kAbsent) {
    out.native_id = field<uint64_t>(raw, o.thread_native_id).value_or(0);
  }
  Walker(memory, o, out).walk(field<uint64_t>(raw, o.thread_frame).value_or(0));
  return out;
}

PySnapshot read_python(RemoteMemory& memory, const PythonRuntime& runtime, base::MonoNs deadline) {
  const Offsets& o = runtime.offsets;
  PySnapshot out;
  std::unordered_set<Addr> seen;
  std::unordered_set<Addr> tried_code;
  Addr interp = memory.value<uint64_t>(runtime.address + o.runtime_interpreters).value_or(0);
  for (size_t i = 0; interp != 0 && i < kMaxInterpreters && seen.insert(interp).second; ++i) {
    const Addr holder = gil_holder(memory, runtime, interp);
    const bool collecting = is_collecting(memory, runtime, interp);
    const int64_t id = o.interp_id == kAbsent ? 0 : memory.value<int64_t>(interp + o.interp_id).value_or(0);
    out.interpreters.push_back({.id = id, .gil_holder = holder, .collecting = collecting});
    Addr thread = memory.value<uint64_t>(interp + o.interp_threads).value_or(0);
    while (thread != 0 && out.threads.size() < kMaxThreads && seen.insert(thread).second) {
      // Checked once per thread: the process is stopped meanwhile.
      if (base::mono_ns() >= deadline) {
        out.complete = false;
        return out;
      }
      const auto raw = memory.bytes(thread, o.thread_size);
      if (!raw) {
        break;
      }
      const auto bytes = std::as_bytes(std::span(*raw));
      PyThread t = read_py_thread(memory, o, thread, bytes);
      t.interpreters = {id};
      t.holds_gil = thread == holder;
      t.collecting = t.holds_gil && collecting;
      // Without a holder of the GIL (a free-threaded build, or a finalizer that released the GIL), any thread
      // may be the one that collects.
      t.may_collect = holder == 0 && collecting;
      for (const FrameGroup& group : t.groups) {
        for (const RawFrame& f : group.frames) {
          if (tried_code.insert(f.code).second) {
            if (auto code = read_code_object(memory, f.code, o)) {
              out.code.emplace(f.code, std::move(*code));
            }
          }
        }
      }
      out.threads.push_back(std::move(t));
      thread = field<uint64_t>(bytes, o.thread_next).value_or(0);
    }
    interp = memory.value<uint64_t>(interp + o.interp_next).value_or(0);
  }
  return out;
}

bool add_frame(RemoteMemory& memory, const Offsets& o, Addr address, PySnapshot& snapshot,
               std::vector<RawFrame>& frames) {
  const auto raw = address == 0 ? std::nullopt : memory.bytes(address, o.frame_size);
  if (!raw) {
    return false;
  }
  const RawFrame found = raw_frame(address, std::as_bytes(std::span(*raw)), o);
  if (!snapshot.code.contains(found.code)) {
    auto code = read_code_object(memory, found.code, o);
    if (!code) {
      return false;
    }
    snapshot.code.emplace(found.code, std::move(*code));
  }
  frames.push_back(found);
  return true;
}

int64_t instruction_index(const RawFrame& frame, const CodeObject& code, const Offsets& o) {
  if (o.chain == FrameChain::objects) {
    return frame.instruction;
  }
  Addr first = code.instructions;
  // Free-threaded builds (3.14) give each thread its own copy of the bytecode, so that specialisation needs
  // no lock. The instruction pointer lies in that copy.
  if (frame.copy > 0 && static_cast<size_t>(frame.copy) < code.copies.size()) {
    first = code.copies[static_cast<size_t>(frame.copy)];
  }
  // Unsigned, because both addresses may be garbage and signed overflow is undefined. Valid addresses give a
  // small difference.
  return static_cast<int64_t>(static_cast<uint64_t>(frame.instruction) - first) / 2;
}

}  // namespace xpurun::stackdump
