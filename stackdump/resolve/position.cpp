#include "stackdump/resolve/position.h"

#include "common/base/hash.h"
#include "common/base/os/procfs.h"
#include "common/base/strings.h"
#include "stackdump/cpython/frames.h"
#include "stackdump/cpython/line_table.h"
#include "stackdump/cpython/variable_motion.h"
#include "stackdump/memory/live_memory.h"
#include "stackdump/memory/snapshot_memory.h"
#include "stackdump/ptrace/access.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::stackdump {

namespace {

constexpr size_t kMaxPositionPages = 1024;  // 4 MiB per read
constexpr size_t kMaxPositionThreads = 4096;
constexpr uint64_t kChunkPrefetch = uint64_t{64} << 10;

// How many of the innermost frames are repeated further out, at the same instructions: a signal whose handler
// waits comes again, and the handler interrupts itself. A function that calls itself stands elsewhere in its
// innermost call.
size_t repeated_frames(const std::vector<RawFrame>& frames) {
  constexpr size_t kLongestHandler = 8;
  const auto same = [&](size_t a, size_t b) {
    return frames[a].code == frames[b].code && frames[a].instruction == frames[b].instruction;
  };
  for (size_t period = 1; period <= std::min(kLongestHandler, frames.size() / 2); ++period) {
    size_t length = 0;
    while (length + period < frames.size() && same(length, length + period)) {
      ++length;
    }
    if (length >= period) {
      return length - length % period;
    }
  }
  return 0;
}

PyThread without_repetition(PyThread thread) {
  std::vector<RawFrame> all;
  for (const FrameGroup& group : thread.groups) {
    all.insert(all.end(), group.frames.begin(), group.frames.end());
  }
  size_t left = repeated_frames(all);
  while (left > 0) {
    std::vector<RawFrame>& frames = thread.groups.front().frames;
    const size_t taken = std::min(left, frames.size());
    frames.erase(frames.begin(), frames.begin() + static_cast<std::ptrdiff_t>(taken));
    left -= taken;
    if (frames.empty()) {
      thread.groups.erase(thread.groups.begin());
    }
  }
  return thread;
}

}  // namespace

struct PositionReader::State {
  State(base::Pid p, base::Pid inner) : pid(p), inner_pid(inner), live(p), memory(live, kMaxPositionPages) {}

  base::Pid pid;
  base::Pid inner_pid;  // in the process's own PID namespace
  LiveMemory live;
  SnapshotMemory memory;  // pages of one read
  PythonRuntime runtime;
  VariableMotion variables;
  Addr main_thread = 0;
  Lines last_lines = Lines::to_user;
  Position last;  // its names are valid while the fingerprint stays the same

  uint64_t fingerprint_of(const PyThread& thread) { return fingerprints_of(thread).fingerprint; }
  Position fingerprints_of(const PyThread& thread);
  std::optional<CodeLine> line_of(const RawFrame& frame);
  std::optional<CodeLine> innermost_line(const PyThread& thread);
  std::vector<CodeLine> lines_of(const PyThread& thread, const std::function<bool(std::string_view)>& is_user,
                                 Lines wanted);
  bool is_main(Addr thread, Addr interp);
  std::optional<Addr> find_main();
  base::Result<PyThread> read_main();
};

Position PositionReader::State::fingerprints_of(const PyThread& thread) {
  Position out;
  if (thread.groups.empty()) {
    return out;
  }
  const RawFrame& innermost = thread.groups.front().frames.front();
  out.has_python = true;
  out.instruction = innermost.instruction;
  for (const FrameGroup& group : thread.groups) {
    for (const RawFrame& f : group.frames) {
      const auto instruction = static_cast<uint64_t>(&f == &innermost ? 0 : f.instruction);
      out.around = base::hash_words(out.around, {f.code, instruction});
    }
  }
  out.around = base::hash_words(out.around, {variables.fingerprint(memory, thread, runtime.offsets)});
  out.fingerprint = base::hash_words(out.around, {static_cast<uint64_t>(out.instruction)});
  return out;
}

std::optional<CodeLine> PositionReader::State::line_of(const RawFrame& frame) {
  const Offsets& o = runtime.offsets;
  const auto code = read_code_object(memory, frame.code, o);
  if (!code || is_ours(*code)) {
    return std::nullopt;
  }
  const int64_t instruction = instruction_index(frame, *code, o);
  return CodeLine{.function = base::sanitize(code->name),
                  .file = base::sanitize(code->filename),
                  .line = source_range(o.lines, code->line_table, code->first_line, instruction).line};
}

// Of the program.
std::optional<CodeLine> PositionReader::State::innermost_line(const PyThread& thread) {
  for (const FrameGroup& group : thread.groups) {
    for (const RawFrame& f : group.frames) {
      const auto code = read_code_object(memory, f.code, runtime.offsets);
      if (!code || !is_ours(*code)) {
        return line_of(f);
      }
    }
  }
  return std::nullopt;
}

std::vector<CodeLine> PositionReader::State::lines_of(const PyThread& thread,
                                                      const std::function<bool(std::string_view)>& is_user,
                                                      Lines wanted) {
  std::vector<CodeLine> out;
  for (const FrameGroup& group : thread.groups) {
    for (const RawFrame& f : group.frames) {
      if (out.size() == Position::kMostLines) {
        return out;
      }
      if (auto line = line_of(f)) {
        out.push_back(std::move(*line));
        if (wanted == Lines::to_user && is_user(out.back().file)) {
          return out;
        }
      }
    }
  }
  return out;
}

bool PositionReader::State::is_main(Addr thread, Addr interp) {
  const Offsets& o = runtime.offsets;
  const auto raw = memory.bytes(thread, o.thread_size);
  if (thread == 0 || !raw) {
    return false;
  }
  const auto bytes = std::as_bytes(std::span(*raw));
  // The main thread's id is the process id, in the PID namespace in which CPython asked for it.
  return field<uint64_t>(bytes, o.thread_interp) == interp &&
         (o.thread_native_id == kAbsent ||
          field<uint64_t>(bytes, o.thread_native_id) == static_cast<uint64_t>(inner_pid));
}

std::optional<Addr> PositionReader::State::find_main() {
  const Offsets& o = runtime.offsets;
  const auto interp = memory.value<uint64_t>(runtime.address + o.runtime_interpreters);
  if (!interp || *interp == 0) {
    return std::nullopt;
  }
  if (main_thread != 0 && is_main(main_thread, *interp)) {
    return main_thread;
  }
  // CPython inserts new thread states at the front of the list. Several states may carry the main thread's id
  // (until 3.11 also the states of threads that the main thread is just starting); the last such state is the
  // right one. In versions without thread ids: the last state of all.
  Addr found = 0;
  Addr thread = memory.value<uint64_t>(*interp + o.interp_threads).value_or(0);
  for (size_t i = 0; thread != 0 && i < kMaxPositionThreads; ++i) {
    if (is_main(thread, *interp)) {
      found = thread;
    }
    thread = memory.value<uint64_t>(thread + o.thread_next).value_or(0);
  }
  return found != 0 ? std::optional(found) : std::nullopt;
}

base::Result<PyThread> PositionReader::State::read_main() {
  const Offsets& o = runtime.offsets;
  // The pages of the last poll are outdated.
  memory.clear();
  const auto thread = find_main();
  if (!thread) {
    main_thread = 0;
    return base::fail(explain_refusal(pid, live.last_errno() == EPERM ? EPERM : ESRCH));
  }
  main_thread = *thread;
  const auto raw = memory.bytes(*thread, o.thread_size);
  if (!raw) {
    return base::fail(explain_refusal(pid, ESRCH));
  }
  const auto bytes = std::as_bytes(std::span(*raw));
  if (o.thread_chunk != kAbsent) {
    // All frames of the thread lie in the used part of this chunk: one read replaces a read per frame.
    const Addr chunk = field<uint64_t>(bytes, o.thread_chunk).value_or(0);
    const Addr top = field<uint64_t>(bytes, o.thread_chunk + 8).value_or(0);
    if (chunk != 0 && top > chunk && top - chunk <= kChunkPrefetch) {
      memory.prefetch({{chunk, top}});
    }
  }
  return read_py_thread(memory, o, *thread, bytes);
}

PositionReader::PositionReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
PositionReader::PositionReader(PositionReader&&) noexcept = default;
PositionReader& PositionReader::operator=(PositionReader&&) noexcept = default;
PositionReader::~PositionReader() = default;

base::Result<PositionReader> PositionReader::open(base::Pid pid) {
  const auto status = base::ProcFs().status(pid);
  if (!status) {
    return base::fail(explain_refusal(pid, ESRCH));
  }
  auto state = std::make_unique<State>(pid, status->ns_pid.empty() ? pid : status->ns_pid.back());
  XPURUN_TRY_ASSIGN(const ProcMaps maps, ProcMaps::read(pid));
  PythonLookup found = find_python(pid, maps, state->memory, LocateEffort::quick);
  state->memory.clear();
  if (!found.runtime) {
    if (state->live.last_errno() == EPERM) {
      return base::fail(explain_refusal(pid, EPERM));
    }
    return base::fail(fmt::format("process {}: {}", pid, found.reason));
  }
  state->runtime = std::move(*found.runtime);
  return PositionReader(std::move(state));
}

base::Result<Position> PositionReader::read(const std::function<bool(std::string_view)>& is_user,
                                            Lines lines) {
  State& s = *state_;
  XPURUN_TRY_ASSIGN(const PyThread t, s.read_main());
  Position out = s.fingerprints_of(without_repetition(t));
  if (out.has_python && out.fingerprint == s.last.fingerprint && lines == s.last_lines) {
    return s.last;
  }
  if (out.has_python) {
    if (const auto innermost = s.innermost_line(t)) {
      out.function = innermost->function;
      out.file = innermost->file;
      out.line = innermost->line;
    }
    if (is_user) {
      out.lines = s.lines_of(t, is_user, lines);
    }
  }
  s.last = out;
  s.last_lines = lines;
  return out;
}

base::Result<std::vector<ThreadPosition>> PositionReader::other_threads(
    size_t most, const std::function<bool(std::string_view)>& is_user) {
  State& s = *state_;
  const Offsets& o = s.runtime.offsets;
  XPURUN_TRY_ASSIGN(const PyThread main, s.read_main());
  std::vector<ThreadPosition> out;
  const auto interp = s.memory.value<uint64_t>(s.runtime.address + o.runtime_interpreters).value_or(0);
  Addr thread = s.memory.value<uint64_t>(interp + o.interp_threads).value_or(0);
  for (size_t i = 0; thread != 0 && i < kMaxPositionThreads && out.size() < most; ++i) {
    const auto raw = s.memory.bytes(thread, o.thread_size);
    if (!raw) {
      break;
    }
    if (thread != main.address) {
      const PyThread t = read_py_thread(s.memory, o, thread, std::as_bytes(std::span(*raw)));
      if (!t.groups.empty()) {
        out.push_back({.native_id = t.native_id, .fingerprint = s.fingerprint_of(t)});
        if (is_user) {
          out.back().lines = s.lines_of(t, is_user, Lines::to_user);
        }
      }
    }
    thread = s.memory.value<uint64_t>(thread + o.thread_next).value_or(0);
  }
  return out;
}

const Offsets& PositionReader::offsets() const {
  return state_->runtime.offsets;
}

base::Result<std::vector<CodeName>> PositionReader::innermost(size_t most) {
  State& s = *state_;
  XPURUN_TRY_ASSIGN(const PyThread t, s.read_main());
  std::vector<CodeName> out;
  for (const FrameGroup& group : t.groups) {
    for (const RawFrame& f : group.frames) {
      if (out.size() == most) {
        return out;
      }
      if (const auto code = read_code_object(s.memory, f.code, s.runtime.offsets); code && !is_ours(*code)) {
        out.push_back({code->name, code->filename});
      }
    }
  }
  return out;
}

}  // namespace xpurun::stackdump
